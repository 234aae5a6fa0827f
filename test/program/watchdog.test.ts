import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  bootstrapClient,
  createTempStore,
  end,
  freePort,
  type Running,
  spawnLeat,
  startLeat,
  storeEnvironment,
  waitFor,
} from '../helpers/leat.ts';
import { openNodeInspector } from '../helpers/node-inspector.ts';
import { sharedPostgres } from '../helpers/postgres.ts';
import { createQuota } from '../helpers/quota.ts';
import { createSlowDisk, noSlowDisk } from '../helpers/slow-disk.ts';
import { createStream, publishOn, startCountingReceiver } from '../helpers/traffic.ts';

const preload = new URL('../helpers/frozen-loop.mjs', import.meta.url).href;
const freezable = { NODE_OPTIONS: `--import=${preload}` };
const quick = { ...freezable, LEAT_WATCHDOG_SECONDS: '1' };

/** Finds the second process in /proc. */
const linux = { tags: ['long'], skip: process.platform !== 'linux' && 'needs /proc' };

describe('the watchdog of a process whose event loop stands still', () => {
  test('a loop ends the process by SIGKILL, after one line with its stack', async (t) => {
    const leat = await start(t, quick);
    leat.child.kill('SIGUSR2');
    assert.equal(await signalOf(leat.child), 'SIGKILL');
    const [line, ...others] = entries(leat.output());
    assert.deepEqual(others, []);
    assert.equal(line?.level, 60);
    assert.equal(line.command, 'serve');
    assert.match(line.msg, /^the event loop has stood still for 1 s, so this process ends$/);
    assert.match(line.err?.stack ?? '', /\n {4}at .*endlessLoop .*frozen-loop\.mjs:\d+:\d+\)/);
  });

  test('the line is text where the log is', { tags: ['long'] }, async (t) => {
    const leat = await start(t, { ...quick, LEAT_LOG_FORMAT: 'text' });
    leat.child.kill('SIGUSR2');
    assert.equal(await signalOf(leat.child), 'SIGKILL');
    assert.match(
      leat.output(),
      /Z {2}fatal {2}the event loop has stood still for 1 s, so this process ends {2}command=serve\n {4}at .*endlessLoop/,
    );
  });

  test('native code ends the process too, without a stack', { tags: ['long'] }, async (t) => {
    const leat = await start(t, { ...quick, FREEZE_BY: 'native' });
    leat.child.kill('SIGUSR2');
    assert.equal(await signalOf(leat.child), 'SIGKILL');
    const [line] = entries(leat.output());
    assert.match(line?.msg ?? '', /; the main thread runs native code, which has no stack here$/);
    assert.equal(line?.err, undefined);
  });

  test('a loop in the first request ends the process', { tags: ['long'] }, async (t) => {
    const started = await spawnOn(t, 'serve', { ...quick, FREEZE_PATH: '/healthz' });
    const first = async (): Promise<boolean> => {
      await fetch(`http://127.0.0.1:${started.port}/healthz`, { signal: AbortSignal.timeout(50) })
        .then((response) => response.arrayBuffer())
        .catch(() => {});
      return started.child.exitCode !== null || started.child.signalCode !== null;
    };
    await waitFor('the process to end', first, { progress: started.output });
    assert.equal(started.child.signalCode, 'SIGKILL', started.output());
  });

  test('a loop in the message API ends it, and leat start with it', linux, async (t) => {
    const started = await spawnOn(t, 'start', quick);
    await waitFor('the service to be up', () => isAnswering(started), {
      progress: started.output,
    });
    const ending = once(started.child, 'close');
    process.kill(childOf(started.child.pid), 'SIGUSR2');
    assert.deepEqual(await ending, [1, null]);
    const line = entries(started.output()).find(({ level }) => level === 60);
    assert.equal(line?.command, 'start');
    assert.match(line?.err?.stack ?? '', /endlessLoop/);
    assert.match(started.output(), /the message API has ended unexpectedly: SIGKILL/);
  });

  test('LEAT_WATCHDOG_SECONDS=0: a loop goes on', { tags: ['long'] }, async (t) => {
    const off = await start(t, { ...quick, LEAT_WATCHDOG_SECONDS: '0' });
    const on = await start(t, quick);
    off.child.kill('SIGUSR2');
    on.child.kill('SIGUSR2');
    assert.equal(await signalOf(on.child), 'SIGKILL');
    assert.equal(off.child.exitCode ?? off.child.signalCode, null);
    assert.equal(await isAnswering(off), false);
  });
});

for (const engine of ['sqlite', 'postgres'] as const) {
  test(`a loop loses no acknowledged event on ${engine}`, { tags: ['long'] }, async (t) => {
    const receiver = await startCountingReceiver(t);
    const store = engine === 'sqlite' ? {} : await postgresStore(t);
    const settings = { ...quick, ...store };
    const leat = await start(t, settings);
    await createStream(leat, receiver.url, 'crash');
    receiver.startRound();
    const acknowledged = new Set<string>();
    const publishing = publishOn(leat, acknowledged, {
      quota: createQuota(3000),
      until: t.signal,
    });
    const progress = (): number => acknowledged.size;
    await waitFor('some events', () => progress() >= 300, { progress, intervalMsMax: 5 });
    leat.child.kill('SIGUSR2');
    assert.equal(await signalOf(leat.child), 'SIGKILL');
    await publishing;
    const again = await startLeat(leat.tempStore, settings);
    t.after(() => again.kill());
    await receiver.waitForAll('every acknowledged event', ['crash'], acknowledged);
  });
}

/** Longer than the default of LEAT_WATCHDOG_SECONDS. */
const longMs = 45_000;

describe('what does not end a process', { concurrency: true }, () => {
  test('45 s of SIGSTOP', { tags: ['long'] }, async (t) => {
    const leat = await start(t, freezable);
    leat.child.kill('SIGSTOP');
    await sleep(longMs);
    leat.child.kill('SIGCONT');
    await assertAnswers(leat);
    assert.deepEqual(withoutUpkeep(leat.output()), []);
  });

  test('a sync of 45 s', { tags: ['long'], skip: noSlowDisk() }, async (t) => {
    const disk = createSlowDisk();
    t.after(() => disk.remove());
    const leat = await start(t, { ...freezable, ...disk.env });
    disk.set({ path: 'leat.db', syncDelayMs: longMs });
    // Its commit is synced by the thread of the event loop.
    const creating = createStream(leat, 'https://receiver.example.com', 'slow');
    await creating;
    const waits =
      'the event loop stands still and uses no processor time: it waits, for a disk or a debugger';
    assert.equal(entries(leat.output()).filter(({ msg }) => msg === waits).length, 1);
  });

  test('a migration of 45 s', { tags: ['long'] }, async (t) => {
    const started = await spawnOn(t, 'serve', {
      ...freezable,
      FREEZE_MIGRATION_MS: String(longMs),
    });
    await waitFor('the service to answer', () => isAnswering(started), {
      progress: () => Math.floor(Date.now() / 1000),
    });
    assert.deepEqual(withoutUpkeep(started.output()), []);
  });

  test('a debugger at a breakpoint for 45 s', { tags: ['long'] }, async (t) => {
    const leat = await start(t, { NODE_OPTIONS: '--inspect=127.0.0.1:0' });
    const inspector = await openNodeInspector(t, leat);
    await inspector.send('Debugger.enable');
    await inspector.send('Debugger.pause');
    await sleep(longMs);
    await inspector.send('Debugger.resume');
    await assertAnswers(leat);
    assert.equal(entries(leat.output()).filter(({ level }) => level > 40).length, 0);
  });

  test('a loop that a debugger follows', { tags: ['long'] }, async (t) => {
    const leat = await start(t, {
      ...quick,
      NODE_OPTIONS: `${freezable.NODE_OPTIONS} --inspect=127.0.0.1:0`,
    });
    const inspector = await openNodeInspector(t, leat);
    leat.child.kill('SIGUSR2');
    await waitFor('the watchdog to see it', () => entries(leat.output()).length > 0);
    await inspector.send('Runtime.terminateExecution');
    await assertAnswers(leat);
    assert.match(entries(leat.output())[0]?.msg ?? '', /does not end while a debugger is open$/);
  });
});

interface Started extends Running {
  readonly tempStore: Awaited<ReturnType<typeof createTempStore>>;
}

async function start(t: TestContext, settings: Record<string, string>): Promise<Started> {
  const tempStore = await createTempStore();
  const leat = await startLeat(tempStore, settings);
  t.after(async () => {
    await leat.kill();
    await tempStore.remove();
  });
  return { ...leat, tempStore };
}

/** Starts a command on a store that does not exist, and does not wait for it. */
async function spawnOn(t: TestContext, command: string, settings: Record<string, string>) {
  const tempStore = await createTempStore();
  const port = await freePort();
  const env = {
    ...storeEnvironment(tempStore),
    LEAT_BOOTSTRAP_CLIENT_ID: bootstrapClient.id,
    LEAT_BOOTSTRAP_CLIENT_SECRET: bootstrapClient.secret,
    ...settings,
    LEAT_PORT: String(port),
    PORT: String(await freePort()),
  };
  const started = spawnLeat([command], env, { cwd: tempStore.folder });
  t.after(async () => {
    await end(started.child, 'SIGKILL');
    await tempStore.remove();
  });
  return { ...started, port, url: `http://127.0.0.1:${port}` };
}

async function postgresStore(t: TestContext): Promise<Record<string, string>> {
  const server = await sharedPostgres();
  const url = await server.createDatabase();
  t.after(() => server.dropDatabase(url));
  return { LEAT_STORE: url, LEAT_TENANT_DOMAIN: 'localhost:4444' };
}

function childOf(pid: number | undefined): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim());
}

async function signalOf(child: Running['child']): Promise<NodeJS.Signals | null> {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'close');
  return child.signalCode;
}

async function isAnswering({ url }: Pick<Running, 'url'>): Promise<boolean> {
  const signal = AbortSignal.timeout(1000);
  return fetch(`${url}/healthz`, { signal }).then(
    ({ ok }) => ok,
    () => false,
  );
}

async function assertAnswers({ url }: Running): Promise<void> {
  assert.equal((await fetch(`${url}/healthz`)).status, 200);
}

interface Entry {
  readonly level: number;
  readonly msg: string;
  readonly command?: string;
  readonly err?: { readonly stack?: string };
}

/** Returns the lines of the log. */
function entries(output: string): Entry[] {
  return output
    .split('\n')
    .filter((line) => line.startsWith('{"level"'))
    .map((line) => JSON.parse(line) as Entry);
}

/** Returns the lines of the log but those of upkeep, which runs when it is due. */
function withoutUpkeep(output: string): Entry[] {
  return entries(output).filter(({ msg }) => msg !== 'upkeep' && msg !== 'Leat is up');
}
