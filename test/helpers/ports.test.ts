import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { freePort } from './ports.ts';

test('no two tests that run at the same time get the same port', async () => {
  // Of twice 600 ports of 22,768 some would be the same by chance alone in nearly every run.
  const mine = await Promise.all(Array.from({ length: 600 }, () => freePort()));
  const script = `
    const { freePort } = await import(${JSON.stringify(new URL('ports.ts', import.meta.url).href)});
    const ports = [];
    for (let count = 0; count < 600; count += 1) ports.push(await freePort());
    console.log(JSON.stringify(ports));`;
  const { stdout } = await promisify(execFile)(process.execPath, [
    '--input-type=module',
    '--eval',
    script,
  ]);
  const others = JSON.parse(stdout) as number[];
  assert.equal(others.length, 600);
  assert.equal(new Set([...mine, ...others]).size, 1200);
});
