import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, readFileSync } from 'node:fs';
import { test, type TestContext } from 'node:test';
import { createStream, freshType, type Leat, publish } from '../helpers/api-client.ts';
import { endWithProcess } from '../helpers/children.ts';
import { type Reply, startEndpoint } from '../helpers/endpoint.ts';
import {
  bootstrapClient,
  createTempStore,
  fetchToken,
  freePort,
  leatProgram,
  storeEnvironment,
  type TempStore,
  waitFor,
} from '../helpers/leat.ts';

/**
 * Leat as a container runs it, with the namespaces of the kernel in place of a container engine: as process 1, as a
 * user without rights, on a root file system that cannot be written to.
 */
const user = { uid: 65_534, gid: 65_534 };
const namespaces = ['--mount', '--pid', '--fork', '--kill-child', '--mount-proc', '--ipc', '--uts'];
const script = `mount --bind "$0" "$0" && mount -o remount,bind,ro / && exec "$@"`;
const drop = [
  'setpriv',
  `--reuid=${user.uid}`,
  `--regid=${user.gid}`,
  '--clear-groups',
  '--no-new-privs',
  '--bounding-set=-all',
  '--inh-caps=-all',
];
const flags = ['--max-semi-space-size=16', '--v8-pool-size=0'];
const program = [process.execPath, ...flags, leatProgram];

/** Says why the kernel or the place of the checkout does not allow this test; `false` when they do. */
function skipReason(): string | false {
  const words = [...namespaces, 'sh', '-c', script, '/tmp', ...drop, ...program, '--version'];
  const { error, status } = spawnSync('unshare', words, { cwd: '/', env: {} });
  if (error === undefined && status === 0) return false;
  return 'needs unshare and setpriv, root, and a checkout that every user can read';
}

test(
  'process 1 without rights on a read-only root delivers, and records the attempt in progress after SIGTERM',
  { tags: ['long'], skip: skipReason() },
  async (t) => {
    const tempStore = await createTempStore();
    t.after(() => tempStore.remove());
    chownSync(tempStore.folder, user.uid, user.gid);
    const endpoint = await startEndpoint();
    t.after(() => endpoint.close());

    const first = await startContained(t, tempStore);
    assert.equal(statusOf(first.pid, 'NSpid').at(-1), '1');
    assert.deepEqual(statusOf(first.pid, 'Uid'), Array(4).fill(String(user.uid)));
    assert.deepEqual(statusOf(first.pid, 'CapBnd'), ['0000000000000000']);
    assert.match(rootOptionsOf(first.pid), /^ro,/);
    const messages = await fetch(`http://127.0.0.1:${first.messagesPort}/api/messages/public`);
    assert.equal(messages.status, 200);

    const type = freshType();
    await createStream(first, endpoint.url, { types: [type] });
    const held = Promise.withResolvers<() => void>();
    const hold: Reply = (response) => held.resolve(() => void response.writeHead(204).end());
    endpoint.respondWith(hold);
    const id = await publish(first, type);
    const respond = await held.promise;
    process.kill(first.pid, 'SIGTERM');
    await waitFor('the service to listen no more', () =>
      fetch(`${first.url}/healthz`).then(
        () => false,
        () => true,
      ),
    );
    assert.equal(first.child.exitCode, null);
    endpoint.respondWith(204);
    respond();
    assert.deepEqual(await first.ended, [0, null]);

    const second = await startContained(t, tempStore);
    const next = await publish(second, type);
    await waitFor('the next event', () => endpoint.of(next).length === 1);
    assert.equal(endpoint.of(id).length, 1);
    process.kill(second.pid, 'SIGTERM');
    assert.deepEqual(await second.ended, [0, null]);
  },
);

test(
  'process 1 whose event loop stands still ends, although it receives no signal of its own',
  { skip: skipReason(), tags: ['long'] },
  async (t) => {
    const tempStore = await createTempStore();
    t.after(() => tempStore.remove());
    chownSync(tempStore.folder, user.uid, user.gid);
    const preload = new URL('../helpers/frozen-loop.mjs', import.meta.url).href;
    const first = await startContained(t, tempStore, {
      NODE_OPTIONS: `--import=${preload}`,
      LEAT_WATCHDOG_SECONDS: '1',
    });
    process.kill(first.pid, 'SIGUSR2');
    // unshare passes the end of its child on.
    assert.notDeepEqual(await first.ended, [0, null]);
    assert.match(first.output(), /endlessLoop.*the event loop has stood still for 1 s/);
  },
);

interface Contained extends Leat {
  /** Of process 1, outside of its namespace. */
  readonly pid: number;
  readonly child: ReturnType<typeof spawn>;
  readonly messagesPort: number;
  readonly ended: Promise<unknown>;
  output(): string;
}

/** Starts both APIs and waits until they are ready. */
async function startContained(
  t: TestContext,
  tempStore: TempStore,
  settings: Readonly<Record<string, string>> = {},
): Promise<Contained> {
  const [port, messagesPort] = [await freePort(), await freePort()];
  const words = [...namespaces, 'sh', '-c', script, tempStore.folder, ...drop, ...program, 'start'];
  const child = spawn('unshare', words, {
    cwd: '/',
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env['PATH'],
      ...storeEnvironment(tempStore),
      LEAT_HOST: '0.0.0.0',
      LEAT_PORT: String(port),
      PORT: String(messagesPort),
      LEAT_BOOTSTRAP_CLIENT_ID: bootstrapClient.id,
      LEAT_BOOTSTRAP_CLIENT_SECRET: bootstrapClient.secret,
      LEAT_ALLOW_HTTP_ENDPOINTS: 'true',
      LEAT_EGRESS_ALLOW: '127.0.0.0/8',
      ...settings,
    },
  });
  endWithProcess(child);
  t.after(() => child.kill('SIGKILL'));
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  }
  const ended = once(child, 'close');
  const url = `http://127.0.0.1:${port}`;
  const isReady = async (): Promise<boolean> => {
    assert.equal(child.exitCode, null, output);
    return fetch(`${url}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    );
  };
  await waitFor('the service to be ready', isReady, { progress: () => output });
  const token = await fetchToken(url, bootstrapClient);
  const send: Leat['send'] = (method, path, body) =>
    fetch(url + path, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  const pid = firstChildOf(child.pid);
  return { url, port, send, child, messagesPort, ended, output: () => output, pid };
}

function firstChildOf(pid: number | undefined): number {
  const [first] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ');
  return Number(first);
}

/** Returns the values of a line of /proc/<pid>/status. */
function statusOf(pid: number, name: string): string[] {
  const text = readFileSync(`/proc/${pid}/status`, 'utf8');
  const line = new RegExp(`^${name}:\\s*(.*)$`, 'm').exec(text)?.[1] ?? '';
  return line.split(/\s+/);
}

function rootOptionsOf(pid: number): string {
  const mounts = readFileSync(`/proc/${pid}/mounts`, 'utf8').split('\n');
  return mounts.findLast((line) => line.split(' ')[1] === '/')?.split(' ')[3] ?? '';
}
