import type { Millis } from '../../core/clock.ts';
import { dayOf } from '../../core/units.ts';
import { Fragment, piece } from '../commands/dialect.ts';

/**
 * Within an update of deliveries: begins a cycle of attempts, with the first one now, and with an entry in the
 * history, of which PostgreSQL has a partition for each day.
 *
 * @param redelivery the request that it is part of; `undefined` for one delivery alone
 */
export function beginsCycle(now: Millis, redelivery?: string): Fragment {
  const day = dayOf(now);
  return new Fragment({
    sqlite: piece`kind = 'redelivery', state = 'retrying', attempt = 1, due_at = ${now},
      cycle_at = ${now}, redelivery = ${redelivery}`,
    postgres: piece`kind = 'redelivery', state = 'retrying', attempt = 1, due_at = ${now},
      cycle_at = ${now}, redelivery = ${redelivery}, attempts_from = least(attempts_from, ${day}),
      attempts_to = greatest(attempts_to, ${day})`,
  });
}
