/**
 * `npm run console:data`: starts a service with much to see and stays until it is killed. Prints what
 * a page of the console is developed with: its URL, a bearer token, and ids by name.
 */
import { once } from 'node:events';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Command } from 'commander';
import { startConsoleService } from '../test/helpers/console-service.ts';

interface Options {
  readonly port: string;
  readonly data: string;
  readonly seed: string;
}

const { port, data, seed } = new Command('console:data')
  .description('Starts a service with much to see and stays until it is killed.')
  .option('--port <port>', 'where it listens', '4100')
  .option('--data <folder>', 'its data folder, which is emptied', join(tmpdir(), 'leat-console'))
  .option('--seed <number>', 'the same seed makes the same content', '1')
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
  progress: (text) => process.stderr.write(`${text} …\n`),
});
const { leat, data: filled } = service;
process.stderr.write(`filled in ${((performance.now() - began) / 1000).toFixed(1)} s\n`);
process.stdout.write(
  `${JSON.stringify({ url: leat.url, pid: process.pid, folder, token: leat.token, ...filled }, undefined, 2)}\n`,
);
await Promise.race([
  once(process, 'SIGINT'),
  once(process, 'SIGTERM'),
  once(leat.child, 'exit').then(() => process.stderr.write(leat.output())),
]);
await service.close();

/** Refuses a folder that has something else than a data folder of Leat in it. */
async function emptyFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true });
  const names = await readdir(path);
  if (names.length > 0 && !names.includes('leat.db')) {
    throw new Error(`${path} is not empty and no data folder: name another one with --data`);
  }
  for (const name of names) await rm(join(path, name), { recursive: true });
}
