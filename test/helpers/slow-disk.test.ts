import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, statSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test, type TestContext } from 'node:test';
import { endWithProcess } from './children.ts';
import { createSlowDisk, type DiskFaults, noSlowDisk } from './slow-disk.ts';
import { waitFor } from './wait.ts';

/** Writes and syncs a file for each line of its input, and prints what came of it. */
const program = `
const { openSync, writeSync, fdatasyncSync, fsyncSync } = require('node:fs');
const files = { one: openSync('one.db', 'w'), other: openSync('other.txt', 'w') };
const tried = (work) => { try { work(); return 'ok'; } catch ({ code }) { return code; } };
require('node:readline').createInterface({ input: process.stdin }).on('line', (name) => {
  const file = files[name];
  const done = [() => writeSync(file, 'x'), () => fdatasyncSync(file), () => fsyncSync(file)].map(tried);
  console.log(done.join(' '));
});`;

async function started(t: TestContext, faults: DiskFaults) {
  const disk = createSlowDisk(faults);
  const folder = mkdtempSync(join(tmpdir(), 'leat-slow-disk-test-'));
  const child = spawn(process.execPath, ['-e', program], {
    cwd: folder,
    env: { ...process.env, ...disk.env },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  endWithProcess(child);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  t.after(async () => {
    child.stdin.end();
    await once(child, 'exit');
    await disk.remove();
    await rm(folder, { recursive: true });
  });
  return {
    disk,
    folder,
    send: (name: 'one' | 'other') => child.stdin.write(`${name}\n`),
    result: async () => (await lines.next()).value as string,
  };
}

const options = { skip: noSlowDisk() };

test(
  'slow disk: writes and syncs of the files concerned fail, and no others',
  options,
  async (t) => {
    const { disk, send, result } = await started(t, { path: '.db', syncError: 'EIO' });
    send('one');
    assert.equal(await result(), 'ok EIO EIO');
    send('other');
    assert.equal(await result(), 'ok ok ok');
    disk.set({ writeError: 'ENOSPC' });
    send('other');
    assert.equal(await result(), 'ENOSPC ok ok');
    disk.set({});
    send('one');
    assert.equal(await result(), 'ok ok ok');
  },
);

test('slow disk: the first syncs succeed', options, async (t) => {
  const { send, result } = await started(t, { path: '.db', syncAfter: 3, syncError: 'EIO' });
  send('one');
  assert.equal(await result(), 'ok ok ok');
  send('one');
  assert.equal(await result(), 'ok ok EIO');
});

test('slow disk: a sync that is delayed ends when the delay is taken back', options, async (t) => {
  const { disk, folder, send, result } = await started(t, { path: '.db', syncDelayMs: 3_600_000 });
  send('other');
  assert.equal(await result(), 'ok ok ok');
  send('one');
  await waitFor('the write before the sync', () => statSync(join(folder, 'one.db')).size > 0);
  disk.set({});
  assert.equal(await result(), 'ok ok ok');
});
