import type { ServerResponse } from 'node:http';
import { yieldToEventLoop } from '../../core/slices.ts';

/** Bytes written to a connection at once: at most a millisecond. */
const writeBytes = 256 * 1024;

/**
 * Writes a long body after its head, yields to the event loop after each part, and writes no faster
 * than the client reads. Ends the response; resolves also when the connection ends before.
 */
export async function writePaced(
  response: ServerResponse,
  pieces: readonly Buffer[],
): Promise<void> {
  // A connection that breaks during a write cannot carry a response any more.
  response.on('error', () => {});
  for (const part of partsOf(pieces)) {
    if (response.destroyed) return;
    if (!response.write(part)) await drained(response);
    await yieldToEventLoop();
  }
  response.end();
}

function* partsOf(pieces: readonly Buffer[]): Generator<Buffer> {
  for (const piece of pieces) {
    for (let at = 0; at < piece.length; at += writeBytes) yield piece.subarray(at, at + writeBytes);
  }
}

/** Resolves when the response takes more, or has closed. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      response.off('drain', end).off('close', end);
      resolve();
    };
    response.on('drain', end).on('close', end);
  });
}
