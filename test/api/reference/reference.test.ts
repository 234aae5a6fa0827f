import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { Compile } from 'typebox/compile';
import { bodyExamples } from '../../../src/api/reference/examples.ts';
import { staticFile, withoutDataUrls } from '../../../src/api/http/static-files.ts';
import { htmlHeaders } from '../../../src/api/http/html.ts';
import { describedOperations } from '../../../src/api/operations.ts';
import { createSecureReader } from '../../../src/api/http/client-address.ts';
import { words } from '../../../src/core/words.ts';
import { secondTenant } from '../../auth/fixture.ts';
import { exchange, requestText } from '../../helpers/exchange.ts';
import { openApiFixture, type ApiResponse, type ApiFixture } from '../fixture.ts';

const policy = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/** Paths that the page names in `src` and `href`. */
function pathsIn({ text }: ApiResponse): string[] {
  const found = [...text.matchAll(/(?:src|href)="([^"]+)"/g)].map((match) => match[1] ?? '');
  return [...new Set(found)];
}

describe('the reference page', () => {
  let fixture: ApiFixture;
  before(async () => {
    fixture = await openApiFixture();
  });
  after(() => fixture.close());

  for (const path of ['/docs', '/docs/']) {
    test(`${path} is HTML that names Leat and its version and allows no foreign resources`, async () => {
      const { status, headers, text } = await fixture.raw('GET', path);
      assert.equal(status, 200);
      assert.match(text, /<title>Leat 1\.2\.3 API reference<\/title>/);
      assert.doesNotMatch(text, /\{\{/);
      assert.equal(headers.get('content-type'), 'text/html; charset=utf-8');
      assert.equal(headers.get('content-security-policy'), policy);
      assert.equal(headers.get('x-frame-options'), 'DENY');
      assert.equal(headers.get('referrer-policy'), 'no-referrer');
      assert.equal(headers.get('cross-origin-opener-policy'), 'same-origin');
      assert.equal(headers.get('x-content-type-options'), 'nosniff');
      assert.equal(headers.get('cache-control'), 'no-cache');
      assert.equal(headers.get('strict-transport-security'), null, 'plain HTTP');
      for (const name of headers.keys()) assert.doesNotMatch(name, /^access-control-|^set-cookie/);
    });
  }

  test('the page explains the words with a meaning of their own, without a script', async () => {
    const { text } = await fixture.raw('GET', '/docs');
    assert.ok(words.length >= 20);
    for (const { word, meaning } of words) {
      assert.doesNotMatch(word + meaning, /[<>&]/, 'not escaped');
      assert.ok(text.includes(`<dt>${word}</dt><dd>${meaning}</dd>`));
    }
  });

  test('a request with the ETag of the page gets 304', async () => {
    const etag = (await fixture.raw('GET', '/docs')).headers.get('etag') ?? '';
    assert.match(etag, /^"[0-9a-f]+"$/);
    const again = await fixture.raw('GET', '/docs/', undefined, {
      'if-none-match': `"x", W/${etag}`,
    });
    assert.equal(again.status, 304);
    assert.equal(again.text, '');
    assert.equal(again.headers.get('etag'), etag);
    // A cache updates what it has by the headers of this response (RFC 9111 section 4.3.4).
    assert.equal(again.headers.get('content-security-policy'), policy);
    assert.equal(again.headers.get('x-frame-options'), 'DENY');
    const other = await fixture.raw('GET', '/docs', undefined, { 'if-none-match': '"other"' });
    assert.equal(other.status, 200);
  });

  test('the files of the page exist, have their media type and are immutable', async () => {
    const page = await fixture.raw('GET', '/docs');
    const paths = pathsIn(page).filter((path) => path.startsWith('/docs/'));
    assert.equal(paths.length, 5, paths.join());
    const types: Record<string, string> = {
      css: 'text/css; charset=utf-8',
      js: 'text/javascript; charset=utf-8',
      svg: 'image/svg+xml',
    };
    for (const path of paths) {
      const { status, headers, text } = await fixture.raw('GET', path);
      assert.equal(status, 200, path);
      assert.equal(headers.get('content-type'), types[path.split('.').at(-1) ?? ''], path);
      assert.equal(headers.get('cache-control'), 'public, max-age=31536000, immutable');
      assert.equal(headers.get('x-content-type-options'), 'nosniff');
      const head = await fixture.raw('HEAD', path);
      assert.equal(head.status, 200, path);
      assert.equal(head.text, '');
      assert.equal(head.headers.get('content-length'), String(Buffer.byteLength(text)), path);
    }
    assert.equal((await fixture.raw('HEAD', '/docs')).status, 200);
  });

  test('the style sheets embed no images', async () => {
    const sheets = pathsIn(await fixture.raw('GET', '/docs')).filter((path) =>
      path.endsWith('.css'),
    );
    let pictures = 0;
    for (const sheet of sheets) {
      const { text } = await fixture.raw('GET', sheet);
      assert.doesNotMatch(text, /data:/);
      for (const [, url = ''] of text.matchAll(/url\(["']?([^"')]+)/g)) {
        pictures += 1;
        const picture = await fixture.raw('GET', url);
        assert.equal(picture.status, 200, url);
        assert.match(picture.text, /^<svg [^]*<\/svg>$/);
      }
    }
    assert.ok(pictures > 5, String(pictures));
  });

  test('the document has no query parameters, as operations refuse those that they do not have', async () => {
    const { status, body } = await fixture.raw('GET', '/api/v2/openapi.json?x=secret');
    assert.deepEqual([status, body.errorCode], [400, 'invalid_query_string']);
    assert.match(body.message, /'Unknown query parameter: x' on property x \(the operation has no/);
    assert.doesNotMatch(body.message, /secret/);
  });

  test('methods other than GET and HEAD are 405', async () => {
    const [asset = ''] = pathsIn(await fixture.raw('GET', '/docs')).filter((one) =>
      one.endsWith('.js'),
    );
    for (const path of ['/docs', '/docs/', asset]) {
      const rejected = await fixture.raw('POST', path, '{}');
      assert.equal(rejected.status, 405, path);
      assert.equal(rejected.headers.get('allow'), 'GET, HEAD');
      assert.equal(rejected.body.message, 'Method Not Allowed: accepted is GET, HEAD');
    }
  });

  test('paths outside the list of files are 404', async () => {
    const paths = [
      '/docs/docs.js',
      '/docs/docs.html',
      '/docs/docs.000000000000000.js',
      '/docs/../package.json',
      '/docs/..%2f..%2fpackage.json',
      '/docs/%2e%2e/%2e%2e/package.json',
      '/docs//etc/passwd',
      '/docs/swagger-ui-bundle.js.map',
    ];
    for (const path of paths) {
      const { status, body } = await exchange(fixture.port, requestText(`GET ${path}`, []));
      assert.equal(status, 404, path);
      assert.match(body, /"message":"Not Found: no resource has the path \//, path);
    }
  });

  test('the page is 503 during shutdown', async (t) => {
    fixture.ready = false;
    t.after(() => {
      fixture.ready = true;
    });
    const rejected = await fixture.raw('GET', '/docs');
    assert.equal(rejected.status, 503);
    assert.equal(rejected.headers.get('retry-after'), '1');
  });
});

test('the reference page belongs to a tenant: an unknown Host gets 404', async (t) => {
  const fixture = await openApiFixture();
  t.after(() => fixture.close());
  const other = await secondTenant(fixture.auth);
  fixture.auth.clock.move(10_000);
  await fixture.send('GET', '/event-streams');
  const statusAt = async (host: string): Promise<number> => {
    const request = requestText('GET /docs', []).replace('Host: 127.0.0.1', `Host: ${host}`);
    return (await exchange(fixture.port, request)).status;
  };
  assert.equal(await statusAt('nobody.example.com'), 404);
  assert.equal(await statusAt(other.tenant.domain), 200);
});

test('the page and each of its files count against the bucket of the client address', async (t) => {
  const fixture = await openApiFixture({ rateLimitBurst: 3, rateLimitPerSecond: 1 });
  t.after(() => fixture.close());
  const page = await fixture.raw('GET', '/docs');
  assert.equal(page.headers.get('x-ratelimit-remaining'), '2');
  const [asset = ''] = pathsIn(page);
  assert.equal((await fixture.raw('GET', asset)).headers.get('x-ratelimit-remaining'), '1');
  await fixture.raw('GET', '/docs');
  const rejected = await fixture.raw('GET', asset);
  assert.equal(rejected.status, 429);
  assert.equal(rejected.headers.get('cache-control'), 'no-store', 'a 429 is not cached');
  assert.equal(
    (await fixture.send('GET', '/event-streams')).status,
    200,
    'the bucket of a client is not affected',
  );
});

test('the page loads several times with the default rate limit', async (t) => {
  const fixture = await openApiFixture({ rateLimitBurst: 100, rateLimitPerSecond: 50 });
  t.after(() => fixture.close());
  for (let i = 0; i < 8; i++) {
    for (const path of ['/docs', ...pathsIn(await fixture.raw('GET', '/docs'))]) {
      assert.equal((await fixture.raw('GET', path)).status, 200, path);
    }
    fixture.auth.clock.move(100);
  }
});

describe('Strict-Transport-Security', () => {
  test('the header is sent where a trusted proxy ends TLS, not for X-Forwarded-Proto of others', async (t) => {
    const proxied = await openApiFixture({ trustProxy: ['127.0.0.1'] });
    t.after(() => proxied.close());
    const direct = await openApiFixture();
    t.after(() => direct.close());
    const hstsOf = async (fixture: ApiFixture, proto: string): Promise<string | null> => {
      const headers = { 'x-forwarded-proto': proto, 'x-forwarded-host': 'leat.example.com' };
      const page = await fixture.raw('GET', '/docs', undefined, headers);
      assert.equal(page.status, 200);
      return page.headers.get('strict-transport-security');
    };
    assert.equal(await hstsOf(proxied, 'https'), 'max-age=31536000');
    assert.equal(await hstsOf(proxied, 'http, HTTPS'), 'max-age=31536000');
    assert.equal(await hstsOf(proxied, 'http'), null);
    assert.equal(await hstsOf(proxied, 'https, http'), null);
    assert.equal(await hstsOf(direct, 'https'), null);
  });

  const hosts: [host: string, hsts: string][] = [
    ['leat.example.com', 'max-age=31536000'],
    ['localhost.example.com:8443', 'max-age=31536000'],
    ['localhost:8080', 'max-age=300'],
    ['LOCALHOST', 'max-age=300'],
    ['a.localhost:1', 'max-age=300'],
  ];
  for (const [host, hsts] of hosts) {
    test(`${host} gets ${hsts}`, () => {
      assert.equal(htmlHeaders({ secure: true, host })['strict-transport-security'], hsts);
      assert.ok(!('strict-transport-security' in htmlHeaders({ secure: false, host })));
    });
  }

  test('a TLS socket is secure', () => {
    const request = { socket: { encrypted: true }, headers: {} } as unknown as IncomingMessage;
    assert.equal(createSecureReader([])(request), true);
  });
});

describe('a static file', () => {
  test('the path of a file changes with its bytes', () => {
    const one = staticFile('/docs/', 'a.min.js', Buffer.from('1'));
    const two = staticFile('/docs/', 'a.min.js', Buffer.from('2'));
    assert.match(one.path, /^\/docs\/a\.min\.[0-9a-f]{15}\.js$/);
    assert.notEqual(one.path, two.path);
    assert.equal(staticFile('/docs/', 'a.min.js', Buffer.from('1')).path, one.path);
  });

  test('a file of an unknown type is an error', () => {
    assert.throws(() => staticFile('/docs/', 'a.exe', Buffer.from('')), /a\.exe: no media type/);
  });
});

describe('withoutDataUrls', () => {
  const added: string[] = [];
  const addFile = (svg: string): string => `/p${added.push(svg)}`;

  test('withoutDataUrls moves each SVG image of a style sheet into one file', () => {
    const data = String.raw`url("data:image/svg+xml;charset=utf-8,<svg a=\"%23f(1)\"/>")`;
    const css = `a{background:#fff ${data} 50%}b{mask:${data}}c{background:url(x.png)}`;
    const moved = withoutDataUrls(css, addFile);
    const expected = 'a{background:#fff url("/p1") 50%}b{mask:url("/p1")}c{background:url(x.png)}';
    assert.equal(moved, expected);
    assert.deepEqual(added, ['<svg a="#f(1)"/>']);
  });

  test('withoutDataUrls drops images of other types', () => {
    const css = 'a{background:#fff url(data:image/png;base64,AAAA==) 0}';
    assert.equal(withoutDataUrls(css, addFile), 'a{background:#fff none 0}');
  });
});

describe('body examples', () => {
  for (const [operationId, examples] of Object.entries(bodyExamples)) {
    test(`the examples of ${operationId} are valid`, () => {
      const operation = describedOperations().find((one) => one.operationId === operationId);
      const { schema, mediaTypes } = operation?.body ?? {};
      assert.ok(schema, operationId);
      const schemas: Record<string, typeof schema> = { 'application/json': schema, ...mediaTypes };
      for (const [type, example] of Object.entries(examples)) {
        const ofType = schemas[type];
        assert.ok(ofType, type);
        assert.ok(Compile(ofType).Check(example), type);
      }
    });
  }
});
