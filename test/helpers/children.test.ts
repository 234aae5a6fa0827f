import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { waitFor } from './wait.ts';

/** The process ids of a test file and of its programs, and how the file ended. */
interface Run {
  readonly file: number;
  readonly server: number;
  readonly postgres: number;
  readonly ended: Promise<{ code: number | null; output: string }>;
}

const openHandles = new URL('../../tools/open-handles.ts', import.meta.url).href;

const helper = (name: string): string => JSON.stringify(new URL(name, import.meta.url).href);

/** Runs `node --test` with a file whose test starts programs and a server, then runs this code. */
async function runTestThat(t: TestContext, goesOn: string): Promise<Run> {
  const folder = await mkdtemp(join(tmpdir(), 'leat-children-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, 'it.test.ts');
  const ids = join(folder, 'ids.json');
  await writeFile(
    file,
    `import { renameSync, writeFileSync } from 'node:fs';
    import { createServer } from 'node:http';
    import { test } from 'node:test';
    import { createTempStore, startLeat } from ${helper('leat.ts')};
    import { query, startPostgres } from ${helper('postgres.ts')};
    test('fails', { tags: ['long'] }, async () => {
      const tempStore = await createTempStore();
      const leat = await startLeat(tempStore);
      const postgres = await startPostgres();
      const [row] = await query(postgres.url(), 'select pg_backend_pid() as backend,' +
        " (string_to_array(pg_read_file('postmaster.pid'), chr(10)))[1]::int as server");
      createServer().listen(0, '127.0.0.1');
      const ids = { file: process.pid, server: leat.child.pid, postgres: row.server };
      writeFileSync(${JSON.stringify(ids)} + '.new', JSON.stringify(ids));
      renameSync(${JSON.stringify(ids)} + '.new', ${JSON.stringify(ids)});
      ${goesOn}
    });`,
  );
  // With this variable the run would be a part of this one.
  const env = { ...process.env, NODE_TEST_CONTEXT: undefined };
  const run = spawn(process.execPath, [`--import=${openHandles}`, '--test', file], { env });
  t.after(() => run.kill('SIGKILL'));
  let output = '';
  run.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  run.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const ended = once(run, 'close').then(() => ({ code: run.exitCode, output }));
  const text = await waitFor('the test to start its programs', async () => {
    const isOver = run.exitCode !== null;
    const written = await readFile(ids, 'utf8').catch(() => '');
    assert.ok(written !== '' || !isOver, output);
    return written === '' ? undefined : written;
  });
  return { ...(JSON.parse(text) as Omit<Run, 'ended'>), ended };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function allGone({ file, server, postgres }: Run): Promise<void> {
  const pids = { file, server, postgres };
  const alive = (): string[] =>
    Object.entries(pids).flatMap(([name, pid]) => (isAlive(pid) ? [name] : []));
  await waitFor('every process to end', () => alive().length === 0, { progress: alive });
}

describe('a test file', { concurrency: true }, () => {
  test(
    'a test file ends with all that its failed test left running',
    { tags: ['long'] },
    async (t) => {
      const run = await runTestThat(t, "throw new Error('on purpose');");
      const { code, output } = await run.ended;
      assert.equal(code, 1);
      assert.match(output, /on purpose/);
      await allGone(run);
    },
  );

  test(
    'a test file that passes and leaves a program running fails',
    { tags: ['long'] },
    async (t) => {
      const run = await runTestThat(t, '');
      const { code, output } = await run.ended;
      assert.equal(code, 1);
      assert.match(output, /This test left process \d+ running: .*main\.[jt]s serve/);
      await allGone(run);
    },
  );

  test('a test file that is killed leaves nothing running', { tags: ['long'] }, async (t) => {
    const run = await runTestThat(t, 'await new Promise((resolve) => setTimeout(resolve, 1e9));');
    process.kill(run.file, 'SIGKILL');
    assert.equal((await run.ended).code, 1);
    await allGone(run);
  });
});
