import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { freePort, ports } from './ports.ts';

test('fetch connects to every port that tests choose', async () => {
  assert.equal(await failureOf(ports.min - 1), 'bad port');
  for (let port = ports.min; port <= ports.max; port += 1) {
    assert.equal(await failureOf(port), 'asked', `port ${port}`);
  }
});

/** Returns why `fetch` fails: of itself, or as its dispatcher is asked for a connection. */
async function failureOf(port: number): Promise<string> {
  const dispatcher = {
    dispatch: () => {
      throw new Error('asked');
    },
  };
  const request = fetch(`http://127.0.0.1:${port}`, { dispatcher } as unknown as RequestInit);
  return request.then(String, ({ cause }: Error) => (cause as Error).message);
}

test('no two tests that run at the same time get the same port', async () => {
  // Of twice 600 ports of 22,687 some would be the same by chance alone in nearly every run.
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
