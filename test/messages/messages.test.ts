import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { hasAll } from '../../src/messages/messages.ts';
import { type RawResponse, exchange, requestText } from '../helpers/exchange.ts';
import { adminPermission, openMessageApi, origin, type MessageApi } from './fixture.ts';

let api: MessageApi;
let token: string;

before(async () => {
  api = await openMessageApi();
  token = await api.token();
});
after(() => api.close());

/** Sends a request byte for byte, on its own connection. */
function requestMessage(
  path: string,
  headers: readonly string[] = [],
  method = 'GET',
): Promise<RawResponse> {
  // Only the end of the connection marks the end of a response to HEAD here.
  const last = method === 'HEAD' ? ['Connection: close'] : [];
  return exchange(api.port, requestText(`${method} ${path}`, [...headers, ...last]));
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

describe('messages', () => {
  test('a token of 12,288 characters is accepted, a longer one gets 401 that says so', async () => {
    const ofLength = async (characters: number): Promise<string> => {
      const fillerOf = (count: number): Promise<string> => api.token({ filler: 'x'.repeat(count) });
      const shortest = (await fillerOf(0)).length;
      let count = Math.floor(((characters - shortest) * 3) / 4) - 2;
      while ((await fillerOf(count + 1)).length <= characters) count += 1;
      return fillerOf(count);
    };
    const longest = await ofLength(12_288);
    assert.ok(longest.length >= 12_287);
    assert.equal((await requestMessage(paths[1] ?? '', bearer(longest))).status, 200);
    const { status, headers, body } = await requestMessage(
      paths[1] ?? '',
      bearer(`${longest}${'x'.repeat(2)}`),
    );
    assert.deepEqual([status, body], [401, '{"message":"Bad credentials"}']);
    assert.match(
      headers['www-authenticate'] ?? '',
      /error="invalid_token", error_description="The token is too long"/,
    );
  });

  for (const [name, text] of Object.entries(texts)) {
    test(`${name}: the fixed text`, async () => {
      const { status, body } = await requestMessage(`/api/messages/${name}`, bearer(token));
      assert.deepEqual([status, body], [200, JSON.stringify({ text })]);
    });

    test(`${name}: HEAD has the headers of GET and no body`, async () => {
      const headers = { authorization: `Bearer ${token}` };
      const url = `${api.url}/api/messages/${name}?x=1`;
      const got = await fetch(url, { headers });
      const head = await fetch(url, { headers, method: 'HEAD' });
      assert.deepEqual([head.status, await head.text()], [200, '']);
      assert.equal((await got.text()).length, Number(head.headers.get('content-length')));
      const without = (response: Response): object =>
        Object.fromEntries(
          [...response.headers].filter(([each]) => !/^(date|connection|keep-alive)$/.test(each)),
        );
      assert.deepEqual(without(head), without(got));
    });
  }

  test('public: any token is ignored', async () => {
    for (const value of ['', 'Bearer', 'Bearer x y', 'Basic eDp5', 'Bearer nonsense']) {
      const { status } = await requestMessage('/api/messages/public', [`Authorization: ${value}`]);
      assert.equal(status, 200, value);
    }
  });

  test('the query is ignored, including a token in it', async () => {
    const open = await requestMessage(
      `/api/messages/protected?access_token=x&${'q'.repeat(500)}`,
      bearer(token),
    );
    assert.equal(open.status, 200);
    const closed = await requestMessage(`/api/messages/protected?access_token=${token}`);
    assert.deepEqual([closed.status, closed.body], [401, '{"message":"Requires authentication"}']);
  });
});

const malformed = {
  error: 'invalid_request',
  error_description: 'Authorization header value must follow this format: Bearer access-token',
  message: 'Bad credentials',
};

describe('order of checks', () => {
  test('check 1: an unknown path is 404 for any method', async () => {
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
        const { status, body } = await requestMessage(path, [], method);
        assert.equal(status, 404, `${method} ${path}`);
        if (method !== 'HEAD') assert.equal(body, '{"message":"Not Found"}');
      }
    }
  });

  test('check 1: the absolute form of a target is accepted', async () => {
    const known = await requestMessage('http://elsewhere.example/api/messages/public?x');
    assert.equal(known.status, 200);
    assert.equal((await requestMessage('http://elsewhere.example/x')).status, 404);
    assert.equal((await requestMessage('http://elsewhere.example')).status, 404);
  });

  test('check 2: another method is 405 without a token', async () => {
    for (const path of paths) {
      for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'TRACE', 'PROPFIND']) {
        const { status, body, headers } = await requestMessage(path, ['Content-Length: 0'], method);
        assert.deepEqual([status, body], [405, '{"message":"Not Allowed Http Method"}'], method);
        assert.equal(headers['allow'], 'GET, HEAD, OPTIONS');
      }
    }
  });

  test('check 2: the 405 does not wait for the body', async () => {
    const sent = requestText('POST /api/messages/public', ['Content-Length: 1000000'], 'x');
    assert.equal((await exchange(api.port, sent)).status, 405);
    const expecting = ['Content-Length: 5', 'Expect: the-unexpected'];
    const text = requestText('POST /api/messages/public', expecting, 'hello');
    assert.equal((await exchange(api.port, text)).status, 405);
  });

  const pathsWithToken = paths.filter((path) => !path.endsWith('public'));
  for (const path of pathsWithToken) {
    const rejections: readonly [string, string[], number, object, string?][] = [
      ['check 5: no header', [], 401, { message: 'Requires authentication' }, 'Bearer'],
      [
        'check 5: an empty header',
        ['Authorization:'],
        401,
        { message: 'Requires authentication' },
        'Bearer',
      ],
      [
        'check 5: blanks alone',
        ['Authorization:    '],
        401,
        { message: 'Requires authentication' },
        'Bearer',
      ],
      ...['Bearer', 'Bearer ', 'Basic', 'Bearer x y', 'Bearer\tx', 'a b c d'].map(
        (value): [string, string[], number, object, string] => [
          `check 6: not two parts: ${JSON.stringify(value)}`,
          [`Authorization: ${value}`],
          401,
          malformed,
          'Bearer error="invalid_request"',
        ],
      ),
      [
        'check 6: two headers',
        ['Authorization: Bearer x', 'Authorization: Bearer x'],
        401,
        malformed,
        'Bearer error="invalid_request"',
      ],
      ...['Basic eDp5', 'DPoP x', 'Bearers x', 'Beare x'].map(
        (value): [string, string[], number, object, string] => [
          `check 7: another scheme: ${value}`,
          [`Authorization: ${value}`],
          401,
          { message: 'Bad credentials' },
          'Bearer error="invalid_request"',
        ],
      ),
      [
        'check 9: not a token',
        ['Authorization: Bearer nonsense'],
        401,
        { message: 'Bad credentials' },
        'Bearer error="invalid_token"',
      ],
    ];
    for (const [name, headers, status, content, challenge] of rejections) {
      test(`${path}: ${name}`, async () => {
        const response = await requestMessage(path, headers);
        assert.deepEqual([response.status, JSON.parse(response.body)], [status, content]);
        assert.equal(response.headers['www-authenticate'], challenge);
      });
    }

    test(`${path}: check 6: two headers with a valid token`, async () => {
      const response = await requestMessage(path, [...bearer(token), ...bearer(token)]);
      assert.deepEqual([response.status, JSON.parse(response.body)], [401, malformed]);
    });

    test(`${path}: check 7: the scheme in any case, and more than one blank`, async () => {
      for (const value of [`bearer ${token}`, `BEARER   ${token}`, `  BeArEr ${token}  `]) {
        assert.equal((await requestMessage(path, [`Authorization: ${value}`])).status, 200, value);
        assert.equal((await requestMessage(path, [`aUTHORIZATION:${value}`])).status, 200, value);
      }
    });
  }

  test('check 9 comes before 10: an invalid token without the permission is 401', async () => {
    const expired = await api.token({ exp: 1, permissions: [] });
    assert.equal((await requestMessage('/api/messages/admin', bearer(expired))).status, 401);
  });

  test('check 10: a missing permission is 403', async () => {
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
      const insufficient = await api.token({ permissions, scope: adminPermission });
      const response = await requestMessage('/api/messages/admin', bearer(insufficient));
      assert.deepEqual([response.status, response.body], [403, '{"message":"Permission denied"}']);
      assert.equal(
        response.headers['www-authenticate'],
        'Bearer error="insufficient_scope", scope="read:admin-messages"',
      );
      assert.equal(
        (await requestMessage('/api/messages/protected', bearer(insufficient))).status,
        200,
      );
    }
  });

  test('check 10: the permission among others is sufficient', async () => {
    const permissions = ['a', adminPermission, 'b'];
    const sufficient = await api.token({ permissions });
    assert.equal((await requestMessage('/api/messages/admin', bearer(sufficient))).status, 200);
  });

  test('hasAll: true only if something is required and all of it is held', () => {
    assert.equal(hasAll(['a'], []), false);
    assert.equal(hasAll([], []), false);
    assert.equal(hasAll(undefined, ['a']), false);
    assert.equal(hasAll(['a', 'b'], ['b', 'a']), true);
    assert.equal(hasAll(['a'], ['a', 'b']), false);
  });
});

describe('response headers', () => {
  test('a preflight allows GET and two headers, for a day', async () => {
    for (const path of paths) {
      const preflight = ['Origin: http://evil.example', 'Access-Control-Request-Method: GET'];
      const { status, headers, body } = await requestMessage(path, preflight, 'OPTIONS');
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
    test(`every response header is sent for ${name}`, async () => {
      const { status, headers, body } = await exchange(api.port, request);
      assert.ok(status > 0, 'there is a response');
      assert.deepEqual({ ...headers, ...always }, headers);
      assert.equal(headers['access-control-allow-credentials'], undefined);
      assert.ok(Math.abs(Date.parse(headers['date'] ?? '') - Date.now()) < 60_000);
      if (body === '') return;
      assert.equal(headers['content-type'], 'application/json; charset=utf-8');
      const content = JSON.parse(body) as object;
      assert.ok('message' in content || 'text' in content, body);
    });
  }
});

describe('keys of the issuer', () => {
  test('check 8: without keys a token that could be valid is 500, any other 401', async (t) => {
    const unreachable = await openMessageApi();
    t.after(() => unreachable.close());
    unreachable.available = false;
    const send = async (path: string, sent: string): Promise<[number, unknown]> => {
      const text = requestText(`GET /api/messages/${path}`, bearer(sent));
      const { status, headers, body } = await exchange(unreachable.port, text);
      if (status === 500) assert.equal(headers['www-authenticate'], undefined);
      return [status, (JSON.parse(body) as { message?: unknown }).message];
    };
    const unable = [500, 'Unable to verify credentials'];
    const bad = [401, 'Bad credentials'];
    assert.deepEqual(await send('protected', await unreachable.token()), unable);
    assert.deepEqual(await send('admin', await unreachable.token({ permissions: [] })), unable);
    assert.deepEqual(await send('admin', await unreachable.token({ exp: 1 })), bad);
    assert.deepEqual(await send('admin', await unreachable.token({ aud: 'other' })), bad);
    assert.deepEqual(await send('admin', await unreachable.token({ iss: 'https://x/' })), bad);
    assert.deepEqual(await send('admin', 'a.b.c'), bad);
    assert.equal((await send('public', await unreachable.token()))[0], 200);
  });

  test('keys are fetched once for a hundred concurrent first requests', async (t) => {
    const fresh = await openMessageApi();
    t.after(() => fresh.close());
    const headers = { authorization: `Bearer ${await fresh.token()}` };
    const responses = await Promise.all(
      Array.from({ length: 100 }, () => fetch(`${fresh.url}/api/messages/admin`, { headers })),
    );
    assert.deepEqual(new Set(responses.map(({ status }) => status)), new Set([200]));
    assert.equal(fresh.fetches(), 1);
  });

  test('a token of a withdrawn key is rejected', async (t) => {
    const rotated = await openMessageApi();
    t.after(() => rotated.close());
    const old = await rotated.token();
    rotated.rotate();
    const send = async (sent: string): Promise<number> => {
      const text = requestText('GET /api/messages/protected', bearer(sent));
      return (await exchange(rotated.port, text)).status;
    };
    assert.equal(await send(old), 401);
    assert.equal(await send(await rotated.token()), 200);
  });
});

describe('unexpected failure', () => {
  test('an unexpected failure is 500 without its cause, which is reported', async (t) => {
    const time = { now: () => Date.now() };
    const clock = {
      elapsedMs: () => 0,
      after: () => ({ cancel: () => {} }),
      now: () => time.now(),
    };
    const broken = await openMessageApi(clock);
    t.after(() => broken.close());
    const sent = bearer(await broken.token());
    let calls = 0;
    time.now = () => {
      calls += 1;
      if (calls === 1) throw new Error('the clock is gone');
      return Date.now();
    };
    const response = await exchange(broken.port, requestText('GET /api/messages/admin', sent));
    assert.deepEqual(
      [response.status, response.body],
      [500, '{"message":"Internal Server Error"}'],
    );
    assert.match(String(broken.reported[0]), /the clock is gone/);
  });
});
