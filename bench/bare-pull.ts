/**
 * The baseline for pulls: writes the same server-sent events to every client, without log, tokens and
 * filters. `bare-pull.ts <events of the warm-up> <events> <events per chunk>`.
 */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { setImmediate as turn } from 'node:timers/promises';
import { eventFrame, greeting } from '../src/core/sse.ts';
import { makeEvent } from './leat.ts';

const [warmUp = 0, events = 0, perPiece = 1] = process.argv.slice(2).map(Number);
const responses: ServerResponse[] = [];
const warmUpChunks = warmUp > 0 ? chunksOf(1, warmUp, 'bench.warm') : [];
const chunks = chunksOf(warmUp + 1, events, 'bench.end');

/** Returns the frames of events from an offset on in pieces, and that of an event of the last type. */
function chunksOf(from: number, count: number, lastType: string): Buffer[] {
  const pieces: Buffer[] = [];
  for (let first = from; first < from + count; first += perPiece) {
    const frames = Array.from({ length: perPiece }, (_, index) =>
      eventFrame({ ...makeEvent(first + index), offset: first + index }),
    );
    pieces.push(Buffer.from(frames.join('')));
  }
  const last = { ...makeEvent(0, lastType), offset: from + count };
  return [...pieces, Buffer.from(eventFrame(last))];
}

async function writeTo(response: ServerResponse): Promise<void> {
  for (const chunk of chunks) {
    if (!response.write(chunk)) await once(response, 'drain');
  }
}

async function writeToAll(pieces: readonly Buffer[]): Promise<void> {
  for (const chunk of pieces) {
    for (const response of responses) response.write(chunk);
    await turn();
  }
}

const server = createServer((request, response) => {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
  response.write(greeting);
  response
    .on('error', () => {})
    .on('close', () => {
      const at = responses.indexOf(response);
      if (at !== -1) responses.splice(at, 1);
    });
  if (request.url === '/waiting') void writeTo(response).catch(() => {});
  else responses.push(response);
});
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (address !== null && typeof address === 'object') process.send?.({ port: address.port });
});
process.on('message', (text) => void writeToAll(text === 'warm up' ? warmUpChunks : chunks));
process.on('disconnect', () => process.exit(0));
