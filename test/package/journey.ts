import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import {
  createStream,
  expectBody,
  publish,
  type StreamBody,
  waitForStats,
} from '../helpers/api-client.ts';
import { type Endpoint, startEndpoint } from '../helpers/endpoint.ts';
import { waitFor } from '../helpers/wait.ts';
import { type Home, run, type RunningProgram, startProgram } from './fixture.ts';

/** A way to ship Leat. */
export interface Shipped {
  readonly home: Home;
  /** The command `leat`. */
  readonly command: string;
}

/**
 * Declares the tests that every way to ship Leat passes: the main job, with everything that is found in
 * other ways than in the checkout (assets, threads, the second process).
 *
 * @param name begins the titles
 * @param shipped returns what `before` of the caller has made
 */
export function describeJourney(name: string, shipped: () => Shipped): void {
  describe(`the main job of ${name}`, () => {
    let leat!: RunningProgram;
    let endpoint!: Endpoint;
    let stream: StreamBody;

    before(async () => {
      endpoint = await startEndpoint();
      leat = await startProgram(shipped().home, shipped().command);
      stream = await createStream(leat, endpoint.url, { types: ['a.made'] });
    });
    after(async () => {
      await endpoint.close();
      assert.equal(await leat.stop(), 0, leat.output());
    });

    test(`${name}: an event arrives with a valid signature`, { tags: ['long'] }, async () => {
      const id = await publish(leat, 'a.made', { n: 1 });
      const { headers, body } = await waitFor('the event', () => endpoint.of(id)[0]);
      const path = `/api/v2/event-streams/${stream.id}/signing-secret`;
      const { secret } = await expectBody<{ secret: string }>(200, leat.send('GET', path));
      const signed = Object.fromEntries(
        Object.entries(headers).map(([header, value]) => [header, String(value)]),
      );
      const verified = new Webhook(secret).verify(body, signed) as { readonly id: string };
      assert.equal(verified.id, id);
    });

    test(`${name}: threads read a large body and send webhooks`, { tags: ['long'] }, async () => {
      const id = await publish(leat, 'a.made', { text: 'x'.repeat(100_000) });
      const { body } = await waitFor('the event', () => endpoint.of(id)[0]);
      assert.equal(body.includes('x'.repeat(100_000)), true);
      await waitForStats(leat, stream.id, { delivered: endpoint.arrivals.length });
      if (process.platform === 'linux') {
        assert.ok(threadsOf(leat.child.pid).includes('sender 1'), 'the thread that sends');
      }
      // A thread that cannot start is reported, and the main thread sends.
      assert.doesNotMatch(leat.output(), /thread/i);
    });

    test(
      `${name}: the console, the reference page and their files are served`,
      { tags: ['long'] },
      async () => {
        for (const path of ['/console/', '/docs']) {
          const page = await fetch(leat.url + path);
          assert.equal(page.status, 200, path);
          const files = filesOf(await page.text());
          assert.ok(files.length >= 2, `${path} names ${files.join(', ')}`);
          for (const file of files) {
            const { status, headers } = await fetch(new URL(file, leat.url + path), {
              method: 'HEAD',
            });
            assert.equal(status, 200, file);
            assert.match(headers.get('content-type') ?? '', /script|css|svg/, file);
          }
        }
        const document = (await (await fetch(`${leat.url}/api/v2/openapi.json`)).json()) as {
          readonly openapi: string;
        };
        assert.match(document.openapi, /^3\./);
      },
    );

    test(
      `${name}: the message API responds, in a process of its own`,
      { tags: ['long'] },
      async () => {
        const page = await fetch(`${leat.messages}/api/messages/public`);
        assert.equal(page.status, 200);
        if (process.platform !== 'linux') return;
        const [child] = childrenOf(leat.child.pid);
        assert.match(commandLineOf(child), /messages-companion/);
      },
    );

    test(`${name}: services have the flags that bound their memory`, { tags: ['long'] }, () => {
      if (process.platform !== 'linux') return;
      // Node starts one thread of V8's pool with `--v8-pool-size=0`, and four without.
      const pool = threadsOf(leat.child.pid).filter((thread) => thread === 'node-V8Worker');
      assert.ok(pool.length <= 1, `${pool.length} threads`);
    });

    test(
      `${name}: a backup succeeds while it runs, and leat restore opens it`,
      { tags: ['long'] },
      async () => {
        const { home, command } = shipped();
        const file = join(home.folder, 'backup.db');
        const backup = await run(home, command, ['backup', file]);
        assert.equal(backup.code, 0, backup.stderr);
        assert.ok((await stat(file)).size > 0);
        const restored = { LEAT_STORE: `sqlite:${join(home.folder, 'restored/leat.db')}` };
        const restore = await run(home, command, ['restore', file], {
          ...restored,
          LEAT_SECRET_KEY: readFileSync(join(home.data, 'secret.key'), 'utf8').trim(),
        });
        assert.equal(restore.code, 0, restore.stderr);
      },
    );
  });
}

/**
 * Proves that an event that was published and not delivered before a change of the program is delivered
 * after it.
 */
export async function deliversAfter(shipped: Shipped, change: () => Promise<void>): Promise<void> {
  const endpoint = await startEndpoint(503);
  try {
    const old = await startProgram(shipped.home, shipped.command);
    await createStream(old, endpoint.url, { types: ['b.made'] });
    const id = await publish(old, 'b.made');
    await endpoint.arrival(1);
    assert.equal(await old.stop(), 0, old.output());
    await change();
    endpoint.respondWith(204);
    const { length } = endpoint.arrivals;
    const current = await startProgram(shipped.home, shipped.command);
    assert.equal((await endpoint.arrival(length + 1)).event.id, id);
    assert.equal(await current.stop(), 0, current.output());
  } finally {
    await endpoint.close();
  }
}

/** Returns the addresses of the scripts, styles and icons that a page names. */
function filesOf(html: string): string[] {
  return [...html.matchAll(/<(?:script|link)[^>]*?\b(?:src|href)="([^"]+)"/g)].map(
    ([, address = '']) => address,
  );
}

function threadsOf(pid: number | undefined): string[] {
  return globSync(`/proc/${pid}/task/*/comm`).map((file) => readFileSync(file, 'utf8').trim());
}

function childrenOf(pid: number | undefined): string[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ');
}

function commandLineOf(pid: string | undefined): string {
  return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
}
