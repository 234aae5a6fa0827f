import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Dispatcher, fetch } from 'undici';
import { badPortOfDomain, badPortProblem } from '../../src/core/bad-port.ts';

/** A network without servers: what reaches it was not refused for its port. */
class NoNetwork extends Dispatcher {
  override dispatch(): boolean {
    throw new Error('no network');
  }
}

async function isRefusedByFetch(port: number): Promise<boolean> {
  const dispatcher = new NoNetwork();
  const error: unknown = await fetch(`http://localhost:${port}/`, { dispatcher }).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof TypeError);
  return error.cause instanceof Error && error.cause.message === 'bad port';
}

describe('bad ports', () => {
  test('they are those of fetch, among the ports up to 10100', async () => {
    for (let port = 1; port <= 10_100; port += 1) {
      // Between these ranges fetch is asked about every hundredth port only.
      if (port > 1100 && port % 100 !== 0 && !isNearListed(port)) continue;
      assert.equal(badPortProblem(port) !== undefined, await isRefusedByFetch(port), String(port));
    }
  });

  test('the port of a domain counts, and a domain without one has none', () => {
    assert.match(badPortOfDomain('localhost:6000') ?? '', /do not connect to port 6000, /);
    assert.match(badPortOfDomain('[::1]:6667') ?? '', /port 6667/);
    for (const domain of ['localhost:8080', 'localhost', '[::1]', '[fe80::6000]', '']) {
      assert.equal(badPortOfDomain(domain), undefined, domain);
    }
  });
});

function isNearListed(port: number): boolean {
  return [port - 1, port, port + 1].some((near) => badPortProblem(near) !== undefined);
}
