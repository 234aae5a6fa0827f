import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { hasAll } from '../../src/messages/messages.ts';
import { type Exchanged, exchange, requestText } from '../helpers/exchange.ts';
import { adminPermission, openPlace, origin, type Place } from './fixture.ts';

let place: Place;
let token: string;

before(async () => {
  place = await openPlace();
  token = await place.token();
});
after(() => place.close());

/** Sends it as it stands, over a connection of its own. */
function ask(path: string, headers: readonly string[] = [], method = 'GET'): Promise<Exchanged> {
  // The end of an answer to HEAD is told by its connection alone.
  const last = method === 'HEAD' ? ['Connection: close'] : [];
  return exchange(place.port, requestText(`${method} ${path}`, [...headers, ...last]));
}

function bearer(text: string): string[] {
  return [`Authorization: Bearer ${text}`];
}

const texts = {
  public: 'This is a public message.',
  protected: 'This is a protected message.',
  admin: 'This is an admin message.',
};
const paths = Object.keys(texts).map((name) => `/api/messages/${name}`);

describe('the three messages', () => {
  for (const [name, text] of Object.entries(texts)) {
    test(`${name}: the fixed text`, async () => {
      const { status, body } = await ask(`/api/messages/${name}`, bearer(token));
      assert.deepEqual([status, body], [200, JSON.stringify({ text })]);
    });

    test(`${name}: HEAD has the headers of GET and no body`, async () => {
      const headers = { authorization: `Bearer ${token}` };
      const url = `${place.url}/api/messages/${name}?x=1`;
      const got = await fetch(url, { headers });
      const head = await fetch(url, { headers, method: 'HEAD' });
      assert.deepEqual([head.status, await head.text()], [200, '']);
      assert.equal((await got.text()).length, Number(head.headers.get('content-length')));
      const without = (answer: Response): object =>
        Object.fromEntries(
          [...answer.headers].filter(([each]) => !/^(date|connection|keep-alive)$/.test(each)),
        );
      assert.deepEqual(without(head), without(got));
    });
  }

  test('public: a token is ignored, whatever it is', async () => {
    for (const value of ['', 'Bearer', 'Bearer x y', 'Basic eDp5', 'Bearer nonsense']) {
      const { status } = await ask('/api/messages/public', [`Authorization: ${value}`]);
      assert.equal(status, 200, value);
    }
  });

  test('the query is ignored, and so is a token in it', async () => {
    const open = await ask(
      `/api/messages/protected?access_token=x&${'q'.repeat(500)}`,
      bearer(token),
    );
    assert.equal(open.status, 200);
    const closed = await ask(`/api/messages/protected?access_token=${token}`);
    assert.deepEqual([closed.status, closed.body], [401, '{"message":"Requires authentication"}']);
  });
});

const malformed = {
  error: 'invalid_request',
  error_description: 'Authorization header value must follow this format: Bearer access-token',
  message: 'Bad credentials',
};

describe('the checks, in their order', () => {
  test('1: no other path is known, before everything else', async () => {
    const others = [
      '/',
      '/api/messages',
      '/api/messages/',
      '/api/messages/public/',
      '/api/messages/Public',
      '/api/messages/%70ublic',
      '/api//messages/public',
      '//api/messages/public',
      '/api/messages/public;x=1',
      '/api/messages/../messages/public',
      '*',
    ];
    for (const path of others) {
      for (const method of ['GET', 'POST', 'OPTIONS', 'HEAD']) {
        const { status, body } = await ask(path, [], method);
        assert.equal(status, 404, `${method} ${path}`);
        if (method !== 'HEAD') assert.equal(body, '{"message":"Not Found"}');
      }
    }
  });

  test('1: the absolute form of a target is its path', async () => {
    const known = await ask('http://elsewhere.example/api/messages/public?x');
    assert.equal(known.status, 200);
    assert.equal((await ask('http://elsewhere.example/x')).status, 404);
    assert.equal((await ask('http://elsewhere.example')).status, 404);
  });

  test('2: no other method is known, before any token', async () => {
    for (const path of paths) {
      for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'TRACE', 'PROPFIND']) {
        const { status, body, headers } = await ask(path, ['Content-Length: 0'], method);
        assert.deepEqual([status, body], [405, '{"message":"Not Allowed Http Method"}'], method);
        assert.equal(headers['allow'], 'GET, HEAD, OPTIONS');
      }
    }
  });

  test('2: a body of a refused method does not hold its answer up', async () => {
    const sent = requestText('POST /api/messages/public', ['Content-Length: 1000000'], 'x');
    assert.equal((await exchange(place.port, sent)).status, 405);
    const expecting = ['Content-Length: 5', 'Expect: the-unexpected'];
    const text = requestText('POST /api/messages/public', expecting, 'hello');
    assert.equal((await exchange(place.port, text)).status, 405);
  });

  const guarded = paths.filter((path) => !path.endsWith('public'));
  for (const path of guarded) {
    const refusals: readonly [string, string[], number, object, string?][] = [
      ['3: no header', [], 401, { message: 'Requires authentication' }, 'Bearer'],
      [
        '3: an empty header',
        ['Authorization:'],
        401,
        { message: 'Requires authentication' },
        'Bearer',
      ],
      [
        '3: blanks alone',
        ['Authorization:    '],
        401,
        { message: 'Requires authentication' },
        'Bearer',
      ],
      ...['Bearer', 'Bearer ', 'Basic', 'Bearer x y', 'Bearer\tx', 'a b c d'].map(
        (value): [string, string[], number, object, string] => [
          `4: not two parts: ${JSON.stringify(value)}`,
          [`Authorization: ${value}`],
          401,
          malformed,
          'Bearer error="invalid_request"',
        ],
      ),
      [
        '4: two headers',
        ['Authorization: Bearer x', 'Authorization: Bearer x'],
        401,
        malformed,
        'Bearer error="invalid_request"',
      ],
      ...['Basic eDp5', 'DPoP x', 'Bearers x', 'Beare x'].map(
        (value): [string, string[], number, object, string] => [
          `5: another scheme: ${value}`,
          [`Authorization: ${value}`],
          401,
          { message: 'Bad credentials' },
          'Bearer error="invalid_request"',
        ],
      ),
      [
        '7: no token',
        ['Authorization: Bearer nonsense'],
        401,
        { message: 'Bad credentials' },
        'Bearer error="invalid_token"',
      ],
    ];
    for (const [name, headers, status, content, challenge] of refusals) {
      test(`${path}: ${name}`, async () => {
        const answer = await ask(path, headers);
        assert.deepEqual([answer.status, JSON.parse(answer.body)], [status, content]);
        assert.equal(answer.headers['www-authenticate'], challenge);
      });
    }

    test(`${path}: two headers with a good token are refused too`, async () => {
      const answer = await ask(path, [...bearer(token), ...bearer(token)]);
      assert.deepEqual([answer.status, JSON.parse(answer.body)], [401, malformed]);
    });

    test(`${path}: the scheme in any case, and more than one blank`, async () => {
      for (const value of [`bearer ${token}`, `BEARER   ${token}`, `  BeArEr ${token}  `]) {
        assert.equal((await ask(path, [`Authorization: ${value}`])).status, 200, value);
        assert.equal((await ask(path, [`aUTHORIZATION:${value}`])).status, 200, value);
      }
    });
  }

  test('7 before 8: a bad token without the permission is a bad token', async () => {
    const expired = await place.token({ exp: 1, permissions: [] });
    assert.equal((await ask('/api/messages/admin', bearer(expired))).status, 401);
  });

  test('8: the permission is missing', async () => {
    const lacking: unknown[] = [
      undefined,
      null,
      [],
      adminPermission,
      { [adminPermission]: true },
      ['read:messages'],
      ['READ:ADMIN-MESSAGES', ' read:admin-messages', 'read:admin-messages '],
      [[adminPermission]],
    ];
    for (const permissions of lacking) {
      const weak = await place.token({ permissions, scope: adminPermission });
      const answer = await ask('/api/messages/admin', bearer(weak));
      assert.deepEqual([answer.status, answer.body], [403, '{"message":"Permission denied"}']);
      assert.equal(
        answer.headers['www-authenticate'],
        'Bearer error="insufficient_scope", scope="read:admin-messages"',
      );
      assert.equal((await ask('/api/messages/protected', bearer(weak))).status, 200);
    }
  });

  test('8: the permission among others is enough', async () => {
    const permissions = ['a', adminPermission, 'b'];
    const strong = await place.token({ permissions });
    assert.equal((await ask('/api/messages/admin', bearer(strong))).status, 200);
  });

  test('8: who is asked for nothing does not pass', () => {
    assert.equal(hasAll(['a'], []), false);
    assert.equal(hasAll([], []), false);
    assert.equal(hasAll(undefined, ['a']), false);
    assert.equal(hasAll(['a', 'b'], ['b', 'a']), true);
    assert.equal(hasAll(['a'], ['a', 'b']), false);
  });
});

describe('what a page is told', () => {
  test('a preflight allows GET and two headers, for a day', async () => {
    for (const path of paths) {
      const asked = ['Origin: http://evil.example', 'Access-Control-Request-Method: GET'];
      const { status, headers, body } = await ask(path, asked, 'OPTIONS');
      assert.deepEqual([status, body], [204, '']);
      assert.equal(headers['access-control-allow-methods'], 'GET');
      assert.equal(headers['access-control-allow-headers'], 'Authorization,Content-Type');
      assert.equal(headers['access-control-max-age'], '86400');
      assert.equal(headers['content-type'], undefined);
    }
  });

  const always = {
    'strict-transport-security': 'max-age=31536000; includeSubDomains',
    'content-security-policy': "default-src 'none';frame-ancestors 'none'",
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
    'x-xss-protection': '0',
    'referrer-policy': 'no-referrer',
    'origin-agent-cluster': '?1',
    'x-dns-prefetch-control': 'off',
    'x-download-options': 'noopen',
    'x-permitted-cross-domain-policies': 'none',
    'cross-origin-embedder-policy': 'require-corp',
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'cache-control': 'no-store, no-cache, must-revalidate, proxy-revalidate',
    pragma: 'no-cache',
    expires: '0',
    'surrogate-control': 'no-store',
    'access-control-allow-origin': origin,
    vary: 'Origin',
  };
  const requests: Readonly<Record<string, string>> = {
    'a message': requestText('GET /api/messages/public', ['Origin: http://evil.example']),
    'a message to HEAD': requestText('HEAD /api/messages/public', ['Connection: close']),
    'a preflight': requestText('OPTIONS /api/messages/admin', []),
    'an unknown path': requestText('GET /x', []),
    'another method': requestText('DELETE /api/messages/public', []),
    'missing credentials': requestText('GET /api/messages/admin', []),
    'malformed credentials': requestText('GET /api/messages/admin', ['Authorization: Bearer']),
    'another scheme': requestText('GET /api/messages/admin', ['Authorization: Basic x']),
    'a bad token': requestText('GET /api/messages/admin', ['Authorization: Bearer x']),
    'a path that is too long': requestText(`GET /${'x'.repeat(20_000)}`, []),
    'no HTTP at all': 'hello\r\n\r\n',
    'a method in lower case': 'get /api/messages/public HTTP/1.1\r\nHost: x\r\n\r\n',
    'two lengths': requestText('GET /x', ['Content-Length: 1', 'Content-Length: 2']),
    'no Host': 'GET /api/messages/public HTTP/1.1\r\n\r\n',
  };
  for (const [name, request] of Object.entries(requests)) {
    test(`every header, on the answer to ${name}`, async () => {
      const { status, headers, body } = await exchange(place.port, request);
      assert.ok(status > 0, 'there is an answer');
      assert.deepEqual({ ...headers, ...always }, headers);
      assert.equal(headers['access-control-allow-credentials'], undefined);
      assert.ok(Math.abs(Date.parse(headers['date'] ?? '') - Date.now()) < 60_000);
      if (body === '') return;
      assert.equal(headers['content-type'], 'application/json; charset=utf-8');
      const content = JSON.parse(body) as object;
      assert.ok('message' in content || 'text' in content, body);
    });
  }

  test('what is no request is told so, and its connection ends', async () => {
    const refused = {
      'hello\r\n\r\n': 400,
      [requestText('GET /x', ['Content-Length: 1', 'Content-Length: 2'])]: 400,
      [requestText('GET /x', [`X: ${'x'.repeat(20_000)}`])]: 431,
    };
    for (const [request, expected] of Object.entries(refused)) {
      const { status, headers, body } = await exchange(place.port, request);
      assert.deepEqual([status, headers['connection']], [expected, 'close']);
      assert.equal(typeof (JSON.parse(body) as { message: unknown }).message, 'string');
    }
  });
});

describe('the keys of the issuer', () => {
  test('6: a good token is 500 while they cannot be had, a bad one is 401 all the same', async (t) => {
    const away = await openPlace();
    t.after(() => away.close());
    away.available = false;
    const send = async (path: string, sent: string): Promise<[number, unknown]> => {
      const text = requestText(`GET /api/messages/${path}`, bearer(sent));
      const { status, headers, body } = await exchange(away.port, text);
      if (status === 500) assert.equal(headers['www-authenticate'], undefined);
      return [status, (JSON.parse(body) as { message?: unknown }).message];
    };
    const unable = [500, 'Unable to verify credentials'];
    const bad = [401, 'Bad credentials'];
    assert.deepEqual(await send('protected', await away.token()), unable);
    assert.deepEqual(await send('admin', await away.token({ permissions: [] })), unable);
    assert.deepEqual(await send('admin', await away.token({ exp: 1 })), bad);
    assert.deepEqual(await send('admin', await away.token({ aud: 'other' })), bad);
    assert.deepEqual(await send('admin', await away.token({ iss: 'https://x/' })), bad);
    assert.deepEqual(await send('admin', 'a.b.c'), bad);
    assert.equal((await send('public', await away.token()))[0], 200);
  });

  test('are fetched once for a hundred first requests', async (t) => {
    const fresh = await openPlace();
    t.after(() => fresh.close());
    const headers = { authorization: `Bearer ${await fresh.token()}` };
    const responses = await Promise.all(
      Array.from({ length: 100 }, () => fetch(`${fresh.url}/api/messages/admin`, { headers })),
    );
    assert.deepEqual(new Set(responses.map(({ status }) => status)), new Set([200]));
    assert.equal(fresh.fetches(), 1);
  });

  test('that no longer have a kid leave its token refused', async (t) => {
    const moved = await openPlace();
    t.after(() => moved.close());
    const old = await moved.token();
    moved.rotate();
    const send = async (sent: string): Promise<number> => {
      const text = requestText('GET /api/messages/protected', bearer(sent));
      return (await exchange(moved.port, text)).status;
    };
    assert.equal(await send(old), 401);
    assert.equal(await send(await moved.token()), 200);
  });
});

describe('what fails unexpectedly', () => {
  test('is 500 with nothing of its cause, which is reported', async (t) => {
    const time = { now: () => Date.now() };
    const clock = {
      elapsedMs: () => 0,
      after: () => ({ cancel: () => {} }),
      now: () => time.now(),
    };
    const broken = await openPlace(clock);
    t.after(() => broken.close());
    const sent = bearer(await broken.token());
    let calls = 0;
    time.now = () => {
      calls += 1;
      if (calls === 1) throw new Error('the clock is gone');
      return Date.now();
    };
    const answer = await exchange(broken.port, requestText('GET /api/messages/admin', sent));
    assert.deepEqual([answer.status, answer.body], [500, '{"message":"Internal Server Error"}']);
    assert.match(String(broken.reported[0]), /the clock is gone/);
  });
});
