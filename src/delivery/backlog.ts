import type { Millis } from '../core/clock.ts';
import type { Runner } from './runner.ts';

/** What is before a stream, as its node knows it. */
export interface Backlog {
  readonly tenantName: string;
  readonly stream: string;
  /** Events of the log, of every type, that its cursor has not passed. */
  readonly events: number;
  /**
   * When the oldest of them was accepted that the stream wants. Where it is yet to be read from the
   * store, the oldest event in memory stands for it, which was accepted no earlier; `undefined`
   * when there is none, and when the cursor has passed everything.
   */
  readonly oldestAt: Millis | undefined;
  /** First and test deliveries that wait for a retry, or whose attempt takes long. */
  readonly retries: number;
}

/** Works out the backlog of a runner; costs the same however long that is. */
export function backlogOf(runner: Runner): Backlog {
  const { tenantName, id: stream, tail, queue, window } = runner;
  const cursor = runner.cursor();
  const events = Math.max(0, tail.head - cursor);
  const retries = Math.max(0, runner.rows + runner.rowsPending);
  const oldest = events === 0 ? undefined : (window.oldest() ?? queue.at(0) ?? tail.next(cursor));
  return { tenantName, stream, events, oldestAt: oldest?.publishedAt, retries };
}
