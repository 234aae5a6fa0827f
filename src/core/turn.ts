/** Module state, because a process has one event loop. */
let turn = 0;
let isWatched = false;

/**
 * Returns a number that differs from the one of an earlier call when the event loop has read from
 * sockets since.
 */
export function eventLoopTurn(): number {
  if (!isWatched) {
    isWatched = true;
    // Runs right after the sockets of this turn.
    setImmediate(() => {
      turn += 1;
      isWatched = false;
    });
  }
  return turn;
}
