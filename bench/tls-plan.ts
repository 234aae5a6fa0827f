/** What the receivers of `drain-tls` do with each event, the same for both sides. */

export const streams = 200;
/** All numbers of events have the same length, so that all bodies have. */
export const firstSeq = 1_000_000;

/** What the receiver of an event does with its first attempt; later ones are delivered. */
export type Response = 'deliver' | 'fail' | 'hang';

/**
 * Returns the number of the stream of the event with this index. The events of the log belong to the streams
 * in turn.
 */
function streamOf(index: number): number {
  return index % streams;
}

/** Returns what becomes of a first attempt: of a hundred events of each stream one fails and one hangs. */
export function responseTo(index: number): Response {
  const turn = (streamOf(index) + Math.floor(index / streams)) % 100;
  if (turn === 17) return 'fail';
  return turn === 67 ? 'hang' : 'deliver';
}

/** Returns the time until the response: 20 to 60 ms, each as often. */
export function delayMsOf(index: number): number {
  // 29 and 41 have no common divisor, so that 41 indexes in a row have all delays, in no order.
  return 20 + ((index * 29) % 41);
}
