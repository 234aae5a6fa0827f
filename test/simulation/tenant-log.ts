import type { LogEvent } from '../../src/core/types.ts';
import * as model from '../store/contract/model.ts';

/** The acknowledged log of one tenant, and the model of its rows in the store. */
export class TenantLog {
  /** Id of the tenant. */
  readonly tenant: number;
  /** Every event so far, pruned ones included. */
  readonly events: LogEvent[] = [];
  readonly model = model.createModel();
  /** The last offset that a client or a receiver knows. */
  acknowledgedTo = 0;
  removal: Removal = 'none';
  /** Its removal was requested; no other request follows. */
  isBeingRemoved = false;
  /** An operator knows that it is unknown. */
  isRemovalKnown = false;

  constructor(tenant: number) {
    this.tenant = tenant;
  }

  /** Offset of the last event. */
  get head(): number {
    return this.events.length;
  }

  event(offset: number): LogEvent | undefined {
    return this.events[offset - 1];
  }

  /** Returns the last offset of an id, which may be used again once its event was pruned. */
  offsetOf(eventId: string): number | undefined {
    return this.events.findLast(({ id }) => id === eventId)?.offset;
  }

  append(event: LogEvent): void {
    this.events.push(event);
    this.model.head = event.offset;
    const { id, type, offset, publishedAt } = event;
    this.model.log.push({ id, type, offset, publishedAt });
  }

  snapshot(): TenantLogState {
    return { head: this.head, retained: [...this.model.log], removal: this.removal };
  }

  /** Restores an earlier state, except for the streams, which the caller restores. */
  restore({ head, retained, removal }: TenantLogState): void {
    this.removal = removal;
    this.isRemovalKnown &&= removal !== 'none';
    this.events.length = head;
    this.acknowledgedTo = Math.min(this.acknowledgedTo, head);
    this.model.head = head;
    this.model.log.splice(0, Infinity, ...retained);
    this.model.streams.clear();
  }
}

/** Whether the tenant of a log is there, unknown with rows left to remove, or without any. */
type Removal = 'none' | 'leaving' | 'done';

/** A log at one moment. */
export interface TenantLogState {
  readonly head: number;
  /** Events that were not pruned. */
  readonly retained: readonly model.LoggedEvent[];
  readonly removal: Removal;
}
