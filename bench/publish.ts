import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Bench } from './bench.ts';
import { endChild, message, startChild, startReceiver } from './child.ts';
import { addStream, makeEvent, makePlace, orderData, startLeat, withStore } from './leat.ts';
import { load, post } from './load.ts';
import { rateFigure } from './report.ts';
import { alternate } from './rounds.ts';

const seconds = 4;
const connections = 64;
const one = JSON.stringify({ type: 'order.paid', data: orderData(1) });
const hundred = `[${Array.from({ length: 100 }, () => one).join(',')}]`;

/** Single publishes over HTTP, against a Fastify route that only parses the same body. */
export const publishOne: Bench = {
  name: 'publish-one',
  what: `single publishes over ${connections} connections; against a Fastify route that only parses the same body`,
  run: async (progress) => {
    const rounds = await alternate(
      5,
      () => publishRate(one, 0),
      async () => {
        const route = startChild('./bare-route.ts');
        const { port } = await message<{ port: number }>(route);
        const request = post('/api/v2/events', port, one);
        await load({ port, connections, seconds: 1, requests: [request] });
        const rate = await load({ port, connections, seconds, requests: [request] });
        await endChild(route);
        return rate;
      },
      progress,
    );
    return [rateFigure('publish one', rounds, { least: 0.4, goal: 0.8 })];
  },
};

/** Arrays of 100 over HTTP, against a bare loop that inserts the same rows, 100 a commit. */
export const publishHundred: Bench = {
  name: 'publish-100',
  what: 'events per second in arrays of 100 over 8 connections; against a bare loop that inserts the same rows, 100 a commit, with the same fsync',
  run: async (progress) => {
    const rounds = await alternate(
      5,
      async () => 100 * (await publishRate(hundred, 0, 8)),
      bareInsertRate,
      progress,
    );
    return [rateFigure('publish 100', rounds, { least: 0.4, goal: 0.8 })];
  },
};

/** Publishing with 100 subscribed streams that do not send meanwhile, against one. */
export const fanOut: Bench = {
  name: 'fan-out',
  what: 'publish rate with 100 subscribed streams whose endpoint does not answer, against 1',
  run: async (progress) => {
    const rounds = await alternate(
      5,
      () => publishRate(one, 100),
      () => publishRate(one, 1),
      progress,
    );
    return [rateFigure('fan-out', rounds, { least: 0.95, goal: 1 })];
  },
};

/** Publishes per second to a fresh server with so many subscribed streams that never answer. */
async function publishRate(body: string, streams: number, over = connections): Promise<number> {
  const place = await makePlace();
  const receiver = await startReceiver('--hang');
  await withStore(place, async (store) => {
    for (let i = 0; i < streams; i++)
      await addStream(store, receiver.port, { name: `stream-${i}` });
  });
  // One attempt per stream is under way and stays so: nothing is sent while publishing.
  const leat = await startLeat(place, {
    LEAT_STREAM_CONCURRENCY: '1',
    LEAT_ATTEMPT_TIMEOUT_MS: '60000',
  });
  const request = post('/api/v2/events', leat.port, body, leat.token);
  await load({ port: leat.port, connections: over, seconds: 1, requests: [request] });
  const rate = await load({ port: leat.port, connections: over, seconds, requests: [request] });
  await leat.end();
  await receiver.end();
  await place.remove();
  return rate;
}

async function bareInsertRate(): Promise<number> {
  const place = await makePlace();
  const file = fileURLToPath(new URL('./bare-insert.ts', import.meta.url));
  const running = promisify(execFile)(process.execPath, [file, place.file, String(seconds)]);
  running.child.stdin?.end(makeEvent().body);
  const { stdout } = await running;
  await place.remove();
  return Number(stdout);
}
