import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { openApiFixture, type ApiFixture } from './fixture.ts';

const policy = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

describe('the page of the console', () => {
  let fixture: ApiFixture;
  before(async () => {
    fixture = await openApiFixture();
  });
  after(() => fixture.close());

  test('/ and /console lead to it', async () => {
    const root = await get(fixture, '/');
    const bare = await get(fixture, '/console');
    assert.deepEqual([root.status, root.headers.location], [302, '/console/']);
    assert.deepEqual([bare.status, bare.headers.location], [301, '/console/']);
  });

  for (const path of ['/console/', '/console/streams', '/console/events/a%2Fb', '/console/..%2f']) {
    test(`${path} is the page, which allows no foreign resources and nothing inline`, async () => {
      const { status, headers, text } = await fixture.raw('GET', path);
      assert.equal(status, 200);
      assert.equal(headers.get('content-type'), 'text/html; charset=utf-8');
      assert.equal(headers.get('content-security-policy'), policy);
      assert.equal(headers.get('x-frame-options'), 'DENY');
      assert.equal(headers.get('cache-control'), 'no-cache');
      assert.match(text, /<title>Leat<\/title>/);
      assert.doesNotMatch(text, /<style|style=|<script(?![^>]*src=)|data:|https?:/);
      for (const name of headers.keys()) assert.doesNotMatch(name, /^access-control-|^set-cookie/);
    });
  }

  test('its files have a hash in their names, may be cached for ever, and come as the client accepts them', async () => {
    const { text } = await fixture.raw('GET', '/console/');
    const paths = [...text.matchAll(/(?:src|href)="(?<path>[^"]+)"/g)].map(
      (match) => match.groups?.['path'] ?? '',
    );
    assert.ok(paths.length >= 3, paths.join());
    for (const path of paths) {
      assert.match(path, /^\/console\/assets\/[\w.-]+-[\w-]{8}\.(?:js|css|svg)$/);
      const plain = await get(fixture, path);
      assert.equal(plain.status, 200);
      assert.equal(plain.headers['cache-control'], 'public, max-age=31536000, immutable');
      assert.equal(plain.headers.vary, 'accept-encoding');
      assert.equal(plain.headers['content-encoding'], undefined);
      const brotli = await get(fixture, path, 'gzip, br');
      assert.equal(brotli.headers['content-encoding'], 'br');
      assert.deepEqual(brotliDecompressSync(brotli.bytes), plain.bytes);
      const zipped = await get(fixture, path, 'br;q=0, gzip');
      assert.equal(zipped.headers['content-encoding'], 'gzip');
      assert.deepEqual(gunzipSync(zipped.bytes), plain.bytes);
      const preferred = await get(fixture, path, 'br;q=0.1, gzip;q=1');
      assert.equal(preferred.headers['content-encoding'], 'gzip');
    }
  });

  test('a file that was not built is 404, whatever its path', async () => {
    for (const name of ['none.js', '..%2fconsole.html', '%2e%2e%2fstamp', 'console.html.gz']) {
      assert.equal((await fixture.raw('GET', `/console/assets/${name}`)).status, 404, name);
    }
  });

  test('the page is read only: other methods are 405', async () => {
    const { status, headers } = await fixture.raw('POST', '/console/');
    assert.deepEqual([status, headers.get('allow')], [405, 'GET, HEAD']);
  });

  test('each form of the page has a strong ETag of its own, and a request with it gets 304', async () => {
    const codings = ['identity', 'gzip', 'br'];
    const etags: string[] = [];
    for (const coding of codings) {
      const { headers } = await get(fixture, '/console/', coding);
      assert.match(headers.etag ?? '', /^"[!#-~]+"$/);
      etags.push(headers.etag ?? '');
    }
    assert.equal(new Set(etags).size, codings.length, etags.join());
    for (const [index, coding] of codings.entries()) {
      const own = etags[index] ?? '';
      const others = etags.filter((etag) => etag !== own).join(', ');
      for (const [sent, status] of [
        [own, 304],
        [`W/${own}`, 304],
        [`"x", ${own}`, 304],
        ['*', 304],
        [others, 200],
        [own.slice(0, -1), 200],
        [own.slice(1, -1), 200],
        ['"*"', 200],
        ['', 200],
      ] as const) {
        const again = await get(fixture, '/console/streams', coding, { 'if-none-match': sent });
        assert.equal(again.status, status, `${coding} ${sent}`);
        assert.equal(again.headers.etag, own);
        assert.equal(again.headers.vary, 'accept-encoding');
        assert.equal(again.bytes.length === 0, status === 304);
      }
    }
  });
});

/** Sends a request as an HTTP client that decodes nothing and follows no redirect. */
async function get({ port }: ApiFixture, path: string, accepted = 'identity', more: object = {}) {
  const headers = { 'accept-encoding': accepted, ...more };
  const sent = request({ host: '127.0.0.1', port, path, headers });
  sent.end();
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  const bytes = Buffer.concat(await response.toArray());
  return { status: response.statusCode, headers: response.headers, bytes };
}
