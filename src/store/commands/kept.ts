import type { Offset } from '../../core/types.ts';
import { type Command, sql, together } from './command.ts';
import { oneOfNumbers, postgresOnly } from './dialect.ts';

/** A walk over a table, page by page; at its end it stops until it is started again. */
export interface Walk {
  /**
   * Checks a page of `take` rows. Returns how much it checked; 0 only when the walk is over. A page
   * whose commit fails is checked again by the next walk only.
   */
  next(take: number): Command<number>;
  isOver(): boolean;
  restart(): void;
}

export interface WalkedPage<Key> {
  readonly checked: number;
  /** The start of the next page; absent after the last one. */
  readonly last: Key | undefined;
}

export function createWalk<Key>(
  start: Key,
  check: (after: Key, take: number) => Command<WalkedPage<Key>>,
): Walk {
  let after: Key | undefined = start;
  return {
    *next(take) {
      if (after === undefined) return 0;
      const { checked, last } = yield* check(after, take);
      after = last;
      return checked;
    },
    isOver: () => after === undefined,
    restart: () => {
      after = start;
    },
  };
}

interface BodyKey {
  readonly tenant: number;
  readonly offset: number;
}

/** The walk that removes kept bodies which no delivery needs. */
export function createBodyWalk(): Walk {
  return createWalk({ tenant: -1, offset: -1 }, releaseBodies);
}

function* releaseBodies(after: BodyKey, take: number): Command<WalkedPage<BodyKey>> {
  const rows = yield* sql.all<BodyKey & { readonly needed: boolean | number | null }>`
    select k.tenant, k."offset", (
      select true from deliveries d
      where d.tenant = k.tenant and d.event_id = k.id and d."offset" = k."offset" limit 1) as needed
    from kept_events k
    where (k.tenant, k."offset") > (${after.tenant}, ${after.offset})
    order by k.tenant, k."offset" limit ${take}`;
  const over = rows.filter(({ needed }) => needed === null);
  // Together: one after the other would be a round trip for each.
  const byTenant = [...Map.groupBy(over, (row) => row.tenant)];
  yield* together(
    ...byTenant.map(([tenant, own]) => {
      const offsets = own.map(({ offset }) => offset);
      return sql.run`
        delete from kept_events where tenant = ${tenant} and "offset" ${oneOfNumbers(offsets)}`;
    }),
  );
  return { checked: rows.length, last: rows.length < take ? undefined : rows.at(-1) };
}

/** The position of a walk over the deliveries. */
export interface DeliveryKey {
  readonly tenant: number;
  readonly stream: string;
  readonly event_id: string;
}

/** Before all deliveries. */
export const firstDelivery: DeliveryKey = { tenant: -1, stream: '', event_id: '' };

/** A delivery on a walk. */
export interface WalkedDelivery extends DeliveryKey {
  /** The key of its stream in the history. */
  readonly key: number;
  readonly event_key: number;
  readonly offset: Offset | null;
  /** On PostgreSQL. */
  readonly event_day: number | null;
  readonly has_body: boolean | number;
}

/** Returns the next deliveries, in the order of their key. */
export function* deliveriesAfter(
  { tenant, stream, event_id: eventId }: DeliveryKey,
  take: number,
): Command<WalkedDelivery[]> {
  return yield* sql.all<WalkedDelivery>`
    select d.tenant, d.stream, d.event_id, d."offset", d.body is not null as has_body
      ${postgresOnly`, d.event_day`}, coalesce(d."offset", leat_test_key(d.event_id)) as event_key,
      (select r.key from runs r where r.tenant = d.tenant and r.stream = d.stream) as key
    from deliveries d
    where (d.tenant, d.event_id, d.stream) > (${tenant}, ${eventId}, ${stream})
    order by d.tenant, d.event_id, d.stream limit ${take}`;
}
