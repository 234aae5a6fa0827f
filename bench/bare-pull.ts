/**
 * The baseline for pulls: writes the same server-sent events to every client, without log, tokens and
 * filters. `bare-pull.ts <events> <events per chunk>`.
 */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { setImmediate as turn } from 'node:timers/promises';
import { eventFrame, greeting } from '../src/core/sse.ts';
import { makeEvent } from './leat.ts';

const [events = '', perPiece = ''] = process.argv.slice(2).map(Number);
const responses: ServerResponse[] = [];
const chunks: Buffer[] = [];
for (let from = 1; from <= Number(events); from += Number(perPiece)) {
  const frames = Array.from({ length: Number(perPiece) }, (_, index) =>
    eventFrame({ ...makeEvent(from + index), offset: from + index }),
  );
  chunks.push(Buffer.from(frames.join('')));
}
chunks.push(Buffer.from(eventFrame({ ...makeEvent(0, 'bench.end'), offset: Number(events) + 1 })));

async function writeTo(response: ServerResponse): Promise<void> {
  for (const chunk of chunks) {
    if (!response.write(chunk)) await once(response, 'drain');
  }
}

/** Writes the chunks of the next events to all readers that wait for them. */
async function writeToAll(count: number): Promise<void> {
  for (const chunk of chunks.splice(0, Math.ceil(count / Number(perPiece)))) {
    for (const response of responses) response.write(chunk);
    await turn();
  }
  process.send?.('written');
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
process.on('message', (count: number) => void writeToAll(count));
process.on('disconnect', () => process.exit(0));
