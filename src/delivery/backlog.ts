import type { Millis } from '../core/clock.ts';
import type { Runner } from './runner.ts';

/** What a stream has yet to deliver, as far as its node knows. */
export interface Backlog {
  readonly tenantName: string;
  readonly stream: string;
  /** Events of the log, of every type, that its cursor has not passed. */
  readonly events: number;
  /**
   * When the oldest matching one of them was accepted. While that is yet to be read from the store,
   * the oldest event in memory is taken, which was accepted no earlier. `undefined` when none is in
   * memory, and when the cursor is at the head.
   */
  readonly oldestAt: Millis | undefined;
  /** First and test deliveries that wait for a retry, or whose attempt is parked. */
  readonly retries: number;
}

/** Returns the backlog of a runner, in constant time. */
export function backlogOf(runner: Runner): Backlog {
  const { tenantName, id: stream, tail, queue, window } = runner;
  const cursor = runner.cursor();
  const events = Math.max(0, tail.head - cursor);
  const retries = Math.max(0, runner.rows + runner.rowsPending);
  const oldest = events === 0 ? undefined : (window.oldest() ?? queue.at(0) ?? tail.next(cursor));
  return { tenantName, stream, events, oldestAt: oldest?.publishedAt, retries };
}
