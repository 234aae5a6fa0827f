import type { LogEvent } from '../../src/core/types.ts';
import type { DeliverySettings } from '../../src/delivery/settings.ts';
import type { Node } from '../../src/store/port.ts';
import * as model from '../store/contract/model.ts';
import type { Line } from './line.ts';
import type { Broken, PromiseName } from './promises.ts';
import type { Site } from './site.ts';

export interface AccountDeps {
  readonly site: Pick<Site, 'db' | 'tenant'>;
  readonly settings: DeliverySettings;
  /** Whether the plan has nothing that may hold a process or the store up for long. */
  readonly isPunctual: boolean;
  /** See `UpkeepSettings`. */
  readonly lagMaxMs: number;
  readonly nowMs: () => number;
  /** The clock of the store. */
  readonly now: () => number;
}

/** What is known of the log and of the streams, and the first promise that was broken. */
export class Account {
  readonly deps: AccountDeps;
  readonly lines = new Map<string, Line>();
  readonly world = model.createModel();
  readonly log: LogEvent[] = [];
  broken: Broken | undefined;

  constructor(deps: AccountDeps) {
    this.deps = deps;
  }

  break(promise: PromiseName, how: string): void {
    this.broken ??= { promise, atMs: this.deps.nowMs(), how };
  }

  /** Offset of the last event. */
  get head(): number {
    return this.log.length;
  }

  event(offset: number): LogEvent | undefined {
    return this.log[offset - 1];
  }

  /** Streams that are there, oldest first. */
  living(): Line[] {
    return [...this.lines.values()].filter(({ isDeleted }) => !isDeleted);
  }

  wants(line: Line, offset: number): boolean {
    const type = this.event(offset)?.type ?? '';
    return line.spans.findLast(({ after }) => after < offset)?.types.includes(type) ?? false;
  }

  /** The last one: an id may come again once its event was pruned. */
  offsetOf(eventId: string): number | undefined {
    return this.log.findLast(({ id }) => id === eventId)?.offset;
  }

  attemptKey(line: Line, eventId: string, attempt: number): string {
    return `${eventId} ${this.offsetOf(eventId)} ${line.cycles.get(eventId) ?? 0} ${attempt}`;
  }
}

/** Name of a process, other than that of the next one of its node. */
export const processOf = ({ id, incarnation }: Node): string => `${id}#${incarnation}`;
