/**
 * `npm run console:data`: starts a service with much to see and stays until it is killed. Prints what
 * a page of the console is developed with: its URL, a one-time link, a bearer token, and ids by name.
 * SIGHUP starts the service again, with the sources as they are then, on the same data.
 */
import { once } from 'node:events';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Command } from 'commander';
import { createEventSource } from '../test/helpers/console-events.ts';
import { oneTimeLink } from '../test/helpers/console-page.ts';
import { startConsoleService } from '../test/helpers/console-service.ts';
import { storeEnvironment } from '../test/helpers/leat.ts';

interface Options {
  readonly port: string;
  readonly data: string;
  readonly seed: string;
  readonly traffic: boolean;
}

const everyMs = 2000;

const { port, data, seed, traffic } = new Command('console:data')
  .description('Starts a service with much to see and stays until it is killed.')
  .option('--port <port>', 'where it listens', '4100')
  .option('--data <folder>', 'its data folder, which is emptied', join(tmpdir(), 'leat-console'))
  .option('--seed <number>', 'the same seed makes the same content', '1')
  .option('--no-traffic', 'publishes nothing once it is filled')
  .parse()
  .opts<Options>();

const folder = resolve(data);
await emptyFolder(folder);
const tempStore = {
  folder,
  file: join(folder, 'leat.db'),
  remove: () => rm(folder, { recursive: true }),
};
const began = performance.now();
const service = await startConsoleService(tempStore, {
  // A token of an hour would end while a page is being written.
  settings: { LEAT_PORT: port, LEAT_MANAGEMENT_TOKEN_SECONDS: '86400' },
  seed: Number(seed),
  past: true,
  progress: (text) => process.stderr.write(`${text} …\n`),
});
const { leat, data: filled } = service;
process.stderr.write(`filled in ${((performance.now() - began) / 1000).toFixed(1)} s\n`);
const environment = { ...storeEnvironment(tempStore), LEAT_PORT: port };
const link = await oneTimeLink('operator', environment, tempStore);
const another = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
process.stderr.write(`another link: ${another.join(' ')} npm run leat -- console\n`);
const shown = { url: leat.url, link, pid: process.pid, folder, token: leat.token, ...filled };
process.stdout.write(`${JSON.stringify(shown, undefined, 2)}\n`);

process.on('SIGHUP', () => {
  service.restart().then(
    () => process.stderr.write('started again\n'),
    // With sources that do not start, the next SIGHUP tries again.
    (error: unknown) => process.stderr.write(`${String(error)}\n`),
  );
});
const source = createEventSource(Number(seed) + 3);
const timer = setInterval(() => void publishSome(), everyMs);
await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
clearInterval(timer);
await service.close();

/** Publishes a few events, so that numbers of pages change; few fail, as that would disable streams. */
async function publishSome(): Promise<void> {
  if (!traffic) return;
  const types = ['payment.captured', 'invoice.issued', 'subscription.started', 'stock.counted'];
  if (Math.random() < 0.05) types.push('parcel.delayed');
  const events = types.flatMap((type) => source.many(type, 1 + Math.floor(Math.random() * 2)));
  // Between two starts there is no service.
  await service.leat.send('POST', '/api/v2/events', events).catch(() => undefined);
}

/** Refuses a folder that has something else than a data folder of Leat in it. */
async function emptyFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true });
  const names = await readdir(path);
  if (names.length > 0 && !names.includes('leat.db')) {
    throw new Error(`${path} is not empty and no data folder: name another one with --data`);
  }
  for (const name of names) await rm(join(path, name), { recursive: true });
}
