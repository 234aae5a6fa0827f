import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';

const preload = new URL('../../tools/open-handles.ts', import.meta.url).href;

test(
  'a test file that passes and leaves a server open ends, fails and is named',
  { tags: ['long'] },
  async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'leat-open-handles-'));
    t.after(() => rm(folder, { recursive: true, force: true }));
    const file = join(folder, 'open.test.ts');
    await writeFile(
      file,
      `import { createServer } from 'node:http';
    import { test } from 'node:test';
    test('opens a server', { tags: ['long'] }, () => void createServer().listen(0, '127.0.0.1'));
    test('has a result too', { tags: ['long'] }, () => {});`,
    );
    const { code, output } = await runFile(t, file);
    assert.equal(code, 1);
    assert.match(output, /open\.test\.ts left handles open after its last test: .*TCPServerWrap/);
    assert.match(output, /pass 2\n.*fail 1\n/);
  },
);

test('a test file whose process ends before its last test fails and is named', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'leat-open-handles-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, 'exits.test.ts');
  await writeFile(
    file,
    `import { test } from 'node:test';
    test('exits', () => process.exit(0));`,
  );
  const { code, output } = await runFile(t, file);
  assert.equal(code, 1);
  assert.match(output, /exits\.test\.ts ended before its last test/);
});

async function runFile(
  t: TestContext,
  file: string,
): Promise<{ code: number | null; output: string }> {
  // With this variable the run would be a part of this one.
  const env = { ...process.env, NODE_TEST_CONTEXT: undefined };
  const run = spawn(process.execPath, [`--import=${preload}`, '--test', file], { env });
  t.after(() => run.kill('SIGKILL'));
  let output = '';
  run.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  run.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
  await once(run, 'close');
  return { code: run.exitCode, output };
}
