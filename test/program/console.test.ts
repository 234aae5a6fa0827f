import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { describe, test, type TestContext } from 'node:test';
import { bootstrap } from '../../src/auth/bootstrap.ts';
import { systemClock, systemRandom } from '../../src/clock.ts';
import { readConfig } from '../../src/config.ts';
import type { ConsoleSession } from '../../src/core/console-session.ts';
import { StartRefused } from '../../src/core/errors.ts';
import { type Admin, createAdmin } from '../../src/program/admin.ts';
import { openServiceStore } from '../../src/program/store.ts';
import type { Store } from '../../src/store/port/store.ts';
import { endWithProcess } from '../helpers/children.ts';
import {
  bootstrapClient,
  compileCache,
  createTempStore,
  freePort,
  leatProgram,
  runLeat,
  type Running,
  startLeat,
  storeEnvironment,
  waitFor,
} from '../helpers/leat.ts';
import { sharedPostgres } from '../helpers/postgres.ts';
import { newSession } from '../store/contract/console-sessions.ts';

/** One-time links to the console, and its sessions, by the operator's commands. */

const link = /^(?<base>https?:\/\/[^/]+\/console\/)#code=(?<code>[A-Za-z0-9_-]{43})\n/;

interface Opened {
  readonly admin: Admin;
  /** Opens the store for the time of some work, between the commands. */
  withStore<T>(work: (store: Store) => Promise<T>): Promise<T>;
}

for (const [engine, locate] of [
  ['SQLite', sqliteLocation],
  ['PostgreSQL', postgresLocation],
] as const) {
  describe(`${engine}: leat console without a server`, () => {
    for (const role of ['viewer', 'support', 'operator'] as const) {
      test(
        `console: the code of the link begins one session with the role ${role}`,
        { tags: ['long'] },
        async (t) => {
          const { admin, withStore } = await open(await locate(t));
          const text = await admin.run('console', role === 'operator' ? {} : { role });
          assert.match(
            text,
            new RegExp(
              `\\nThe link signs in .* once, within 10 minutes, with the role ${role}\\.$`,
            ),
          );
          const [first, second] = await withStore(async (store) => [
            await redeem(store, text, 'ses_1'),
            await redeem(store, text, 'ses_2'),
          ]);
          assert.deepEqual([first?.role, second], [role, undefined]);
        },
      );
    }

    test('console sessions, console end: list open sessions and end them', async (t) => {
      const { admin, withStore } = await open(await locate(t));
      assert.equal(await admin.run('console sessions'), 'No session of main is open.');
      await withStore(async ({ consoleSessions }) => {
        for (const id of ['ses_1', 'ses_2', 'ses_3']) {
          const user = `ada@example.com\u001b[2J${id}`;
          await consoleSessions.begin(newSession(1, id, { role: 'support', user }));
        }
      });
      const lines = (await admin.run('console sessions')).split('\n');
      assert.equal(lines.length, 4);
      assert.match(lines[0] ?? '', /^ID +USER +ROLE +SINCE +LAST USE +ENDS$/);
      assert.match(
        lines[1] ?? '',
        /^ses_3 +ada@example\.com\\u\{1b\}\[2Jses_3 +support +\d+ s ago +\d+ s ago +in 60 min$/,
      );
      assert.equal(await admin.run('console end', { id: 'ses_2' }), 'Ended session ses_2.');
      await assert.rejects(
        admin.run('console end', { id: 'ses_2' }),
        new StartRefused(
          'main has no open session "ses_2"; leat console sessions --tenant main shows them.',
        ),
      );
      assert.equal(await admin.run('console end', { all: true }), 'Ended 2 sessions of main.');
      assert.equal(await admin.run('console end', { all: true }), 'Ended 0 sessions of main.');
    });

    test('console: each change leaves an entry in the audit log, without the code', async (t) => {
      const { admin, withStore } = await open(await locate(t));
      const text = await admin.run('console', { role: 'viewer' });
      await withStore((store) => redeem(store, text, 'ses_1'));
      await admin.run('console end', { id: 'ses_1' });
      await admin.run('console end', { all: true });
      const { items } = await withStore(({ auditLog }) =>
        auditLog.list(1, { types: ['leat_operator'], after: undefined, take: 10 }),
      );
      assert.deepEqual(
        items.map(({ details }) => details),
        [
          { targets: ['ses_1'], command: 'console end' },
          { targets: [], command: 'console', role: 'viewer' },
        ],
      );
      assert.ok(!JSON.stringify(items).includes(codeOf(text)));
    });
  });
}

describe('leat console with a running server', () => {
  test(
    'console: prints a link of the tenant, whose code is in no output of the server',
    { tags: ['long'] },
    async (t) => {
      const { leat, run } = await running(t);
      const main = await run(['console']);
      assert.equal(link.exec(main)?.groups?.['base'], `http://localhost:${leat.port}/console/`);
      await run(['tenants', 'create', 'acme', 'acme.example.com']);
      const other = await run(['console', '--role', 'viewer', '--tenant', 'acme']);
      assert.equal(link.exec(other)?.groups?.['base'], 'https://acme.example.com/console/');
      assert.match(other, /with the role viewer\.\n$/);
      for (const tenant of ['main', 'acme']) {
        const none = `No session of ${tenant} is open.\n`;
        assert.equal(await run(['console', 'sessions', '--tenant', tenant]), none);
        const ended = await run(['console', 'end', '--all', '--tenant', tenant]);
        assert.equal(ended, `Ended 0 sessions of ${tenant}.\n`);
      }
      for (const text of [main, other]) assert.ok(!leat.output().includes(codeOf(text)));
    },
  );

  test(
    'console end: a session that began with a link is listed, and ends in the running server',
    { tags: ['long'] },
    async (t) => {
      const { leat, run } = await running(t);
      const own = { 'sec-fetch-site': 'same-origin', host: `localhost:${leat.port}` };
      const url = `${leat.url}/console/session`;
      const code = codeOf(await run(['console', '--role', 'support']));
      const signedIn = await fetch(url, {
        method: 'POST',
        headers: { ...own, 'leat-console': '1', 'content-type': 'application/json' },
        body: JSON.stringify({ code }),
      });
      assert.ok(signedIn.ok, await signedIn.text());
      const [cookie = ''] = (signedIn.headers.get('set-cookie') ?? '').split(';');
      const statusOf = async (): Promise<number> =>
        (await fetch(url, { headers: { ...own, cookie } })).status;
      assert.equal(await statusOf(), 200);
      const [, line = ''] = (await run(['console', 'sessions'])).split('\n');
      const id = /^(ses_\S+) +one-time link +support /.exec(line)?.[1];
      assert.ok(id, line);
      assert.equal(await run(['console', 'end', id]), `Ended session ${id}.\n`);
      await waitFor('the end of the session', async () => (await statusOf()) === 401);
      assert.ok(!leat.output().includes(code));
    },
  );

  test(
    'console: refuses an unknown role, tenant or session, and to end nothing in particular',
    { tags: ['long'] },
    async (t) => {
      const { run } = await running(t);
      for (const [words, code, problem] of [
        [['console', '--role', 'admin'], 2, /Allowed choices are viewer, support, operator/],
        [
          ['console', '--tenant', 'nobody'],
          1,
          /^No tenant is called "nobody"; there are main\.\n$/,
        ],
        [['console', 'sessions', '--tenant', 'nobody'], 1, /^No tenant is called "nobody"/],
        [['console', 'end', 'ses_1'], 1, /^main has no open session "ses_1"/],
        [['console', 'end'], 2, /^Name one session/],
        [['console', 'end', 'ses_1', '--all'], 2, /^Name one session/],
        [['console', 'end', '--all', '--role', 'viewer'], 2, /^--role does not go with/],
      ] as const) {
        assert.match(await run(words, code), problem);
      }
    },
  );
});

/** That of util-linux, which takes a command; others do not know the option. */
const hasScript = spawnSync('script', ['--version']).status === 0;

test('leat start: shows a link that signs in on a terminal', { skip: !hasScript }, async (t) => {
  const tempStore = await createTempStore();
  t.after(() => tempStore.remove());
  const env = {
    ...compileCache,
    PATH: process.env['PATH'] ?? '',
    ...storeEnvironment(tempStore),
    LEAT_PORT: String(await freePort()),
    PORT: String(await freePort()),
    LEAT_LOG_LEVEL: 'debug',
  };
  const command = `exec '${process.execPath}' '${leatProgram}' start`;
  const child = spawn('script', ['-qefc', command, '/dev/null'], { cwd: tmpdir(), env });
  endWithProcess(child);
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  await waitFor('the last line of the welcome', () => output.includes('Ctrl-C ends it'), {
    progress: () => output,
  });
  const text = output.replaceAll('\r\n', '\n');
  const welcome = text.slice(text.indexOf('is up.\n'));
  const [, line = '', hint = ''] = welcome.split('\n');
  assert.match(
    line,
    new RegExp(`^  console {10}http://localhost:${env.LEAT_PORT}/console/#code=[A-Za-z0-9_-]{43}$`),
  );
  assert.match(hint, /^ {19}signs in once, within 10 minutes; leat console prints another link$/);
  assert.equal(text.match(/#code=/g)?.length, 1);
  const ended = once(child, 'close');
  child.stdin.write('\u0003');
  await ended;
});

function codeOf(text: string): string {
  const code = /#code=([A-Za-z0-9_-]{43})\n/.exec(text)?.[1];
  assert.ok(code, text);
  return code;
}

/** Redeems the code of a link as the server does. */
async function redeem(
  { consoleSessions }: Store,
  text: string,
  id: string,
): Promise<ConsoleSession | undefined> {
  const code = Buffer.from(codeOf(text), 'base64url');
  assert.equal(code.length, 32);
  const codeHash = createHash('sha256').update(code).digest();
  return consoleSessions.redeem(1, codeHash, newSession(1, id));
}

async function sqliteLocation(t: TestContext): Promise<string> {
  const tempStore = await createTempStore();
  t.after(() => tempStore.remove());
  return `sqlite:${tempStore.file}`;
}

async function postgresLocation(t: TestContext): Promise<string> {
  const server = await sharedPostgres();
  const url = await server.createDatabase();
  t.after(() => server.dropDatabase(url));
  return url;
}

/** Opens the operator's commands on a store with one tenant. */
async function open(location: string): Promise<Opened> {
  const read = readConfig({
    LEAT_STORE: location,
    LEAT_SECRET_KEY: randomBytes(32).toString('base64'),
  });
  if ('problems' in read) throw new Error(read.problems.join('\n'));
  const deps = { config: read.config, clock: systemClock, random: systemRandom };
  const withStore: Opened['withStore'] = async (work) => {
    const store = await openServiceStore(deps);
    try {
      return await work(store);
    } finally {
      await store.close();
    }
  };
  const client = { clientId: bootstrapClient.id, clientSecret: bootstrapClient.secret };
  await withStore((store) =>
    bootstrap(
      { store, random: systemRandom, now: systemClock.now() },
      { name: 'main', domain: 'localhost:8080', client },
    ),
  );
  return { admin: createAdmin(deps), withStore };
}

async function running(
  t: TestContext,
): Promise<{ leat: Running; run(words: readonly string[], expected?: number): Promise<string> }> {
  const tempStore = await createTempStore();
  t.after(() => tempStore.remove());
  const leat = await startLeat(tempStore, { LEAT_LOG_LEVEL: 'debug' });
  t.after(() => leat.kill());
  return {
    leat,
    run: async (words, expected = 0) => {
      const { code, output } = await runLeat(words, storeEnvironment(tempStore));
      assert.equal(code, expected, output);
      return output;
    },
  };
}
