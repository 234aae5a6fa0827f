import type { Clock } from '../core/clock.ts';
import { sleep } from '../core/sleep.ts';
import { type EventTypeStore, eventTypesMax, type SeenType } from '../store/port/event-types.ts';
import type { Hint } from '../store/port/hints.ts';

export interface SeenTypesDeps {
  readonly store: Pick<EventTypeStore, 'record'>;
  readonly clock: Pick<Clock, 'after'>;
  /** Rows of one write. */
  readonly rowsMax: number;
}

type Seen = { -readonly [Key in keyof SeenType]: SeenType[Key] };

/** The types of the events that this node appended, until they are written. */
export class SeenTypes {
  readonly #deps: SeenTypesDeps;
  /** By tenant and type. */
  #tenants = new Map<number, Map<string, Seen>>();

  constructor(deps: SeenTypesDeps) {
    this.#deps = deps;
  }

  /** Remembers the types of events; further ones of a tenant that has too many are not recorded. */
  add({ tenant, events }: Omit<Extract<Hint, { kind: 'appended' }>, 'kind'>): void {
    const types = this.#tenants.get(tenant) ?? new Map<string, Seen>();
    if (types.size === 0) this.#tenants.set(tenant, types);
    for (const { type, offset, publishedAt } of events) {
      const seen = types.get(type);
      if (seen === undefined) {
        if (types.size < eventTypesMax) types.set(type, { tenant, type, offset, at: publishedAt });
      } else if (offset > seen.offset) {
        seen.offset = offset;
        seen.at = publishedAt;
      }
    }
  }

  /** Forgets everything: the log is another one. */
  clear(): void {
    this.#tenants.clear();
  }

  /** Writes what is not written. Rejects with the first error; what is left is written the next time. */
  async flush(): Promise<void> {
    const { store, clock, rowsMax } = this.#deps;
    // A copy: a tenant that publishes meanwhile would come again and again.
    for (const [tenant, types] of Array.from(this.#tenants)) {
      const waiting = [...types.values()];
      while (waiting.length > 0) {
        const part = waiting.splice(0, rowsMax).map((seen) => ({ ...seen }));
        await store.record(part);
        // Forgotten meanwhile.
        if (this.#tenants.get(tenant) !== types) break;
        for (const { type, offset } of part) {
          if (types.get(type)?.offset === offset) types.delete(type);
        }
        await sleep(clock, 0);
      }
      if (types.size === 0 && this.#tenants.get(tenant) === types) this.#tenants.delete(tenant);
    }
  }
}
