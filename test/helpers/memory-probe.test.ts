import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { test } from 'node:test';
import { compareThirds, createMemoryProbe, type Usage } from './memory-probe.ts';

const usage: Usage = {
  heapBytes: 60_000_000,
  arrayBufferBytes: 4_000_000,
  descriptors: 90,
  connections: 60,
};

const grownIn = (usages: readonly Usage[]): string[] =>
  compareThirds(usages).flatMap(({ key, isGrown }) => (isGrown ? key : []));

test('what is used only while caches are filled, or for a moment, has not grown', () => {
  const filling = Array.from({ length: 6 }, (_, index) => ({
    ...usage,
    heapBytes: 30_000_000 + index * 5_000_000,
  }));
  const level = Array.from({ length: 12 }, () => usage);
  const moment = { ...usage, heapBytes: 70_000_000 };
  assert.deepEqual(grownIn([...filling, ...level.slice(1), moment]), []);
});

for (const [key, step] of [
  ['heapBytes', 2_000_000],
  ['arrayBufferBytes', 500_000],
  ['descriptors', 2],
  ['connections', 2],
] as const) {
  test(`${key} that rise from one measurement to the next have grown`, () => {
    const rising = Array.from({ length: 18 }, (_, index) => ({
      ...usage,
      [key]: usage[key] + index * step,
    }));
    assert.deepEqual(grownIn(rising), [key]);
  });
}

test('a probe measures the heap, buffers and descriptors of a program', async (t) => {
  const ends: (() => Promise<void>)[] = [];
  const probe = createMemoryProbe({ after: (end) => void ends.push(end) });
  const script = `const kept = Buffer.alloc(50_000_000); setInterval(() => kept, 1000)`;
  const env = { ...process.env, ...probe.settings };
  const child = spawn(process.execPath, ['-e', script], { env, stdio: 'ignore' });
  t.after(async () => {
    child.kill('SIGKILL');
    for (const end of ends) await end();
  });
  const { heapBytes, arrayBufferBytes, descriptors } = await probe.read({ child });
  assert.ok(heapBytes > 1_000_000, `${heapBytes}`);
  assert.ok(arrayBufferBytes > 50_000_000, `${arrayBufferBytes}`);
  assert.ok(descriptors > 3, `${descriptors}`);
});
