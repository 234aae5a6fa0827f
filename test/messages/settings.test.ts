import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { describeMessageSettings, readMessageSettings } from '../../src/messages/settings.ts';

const complete = {
  PORT: '6060',
  CLIENT_ORIGIN_URL: 'https://app.example.com',
  TOKEN_AUDIENCE: 'https://messages.example.com',
  TOKEN_ISSUER_DOMAIN: 'login.example.com',
};

function read(env: Readonly<Record<string, string>>, alone = true) {
  return readMessageSettings(new Map(Object.entries(env)), { alone });
}

function problems(env: Readonly<Record<string, string>>, alone = true): readonly string[] {
  const reading = read(env, alone);
  return 'problems' in reading ? reading.problems : [];
}

describe('settings of the message API alone', () => {
  test('the four settings are read', () => {
    assert.deepEqual(read(complete), {
      settings: {
        host: '127.0.0.1',
        port: 6060,
        portVariable: 'PORT',
        origin: 'https://app.example.com',
        audience: 'https://messages.example.com',
        issuerDomain: 'login.example.com',
        claims: undefined,
        maxConnectionsPerAddress: 1000,
        keepAliveSeconds: 650,
        trustProxy: [],
        watchdogSeconds: 30,
      },
    });
  });

  for (const variable of Object.keys(complete)) {
    test(`a missing ${variable} is reported in one line with an example`, () => {
      const rest = Object.fromEntries(
        Object.entries(complete).filter(([name]) => name !== variable),
      );
      const [line = '', ...more] = problems(rest);
      assert.deepEqual(more, []);
      assert.match(line, new RegExp(`^${variable}: is required, for example ${variable}=\\S+$`));
    });
  }

  test('all missing settings are reported', () => {
    const named = problems({}).map((line) => line.split(':')[0]);
    assert.deepEqual(named, Object.keys(complete));
  });
});

describe('settings of the message API next to the management API', () => {
  test('all settings but the issuer have defaults', () => {
    assert.deepEqual(read({}, false), {
      settings: {
        host: '127.0.0.1',
        port: 6060,
        portVariable: 'PORT',
        origin: 'http://localhost:4040',
        audience: 'https://messages.example.com',
        issuerDomain: undefined,
        claims: undefined,
        maxConnectionsPerAddress: 1000,
        keepAliveSeconds: 650,
        trustProxy: [],
        watchdogSeconds: 30,
      },
    });
  });
});

describe('values of settings', () => {
  test('APP_PORT is read if PORT is absent, and named if it is invalid', () => {
    const { CLIENT_ORIGIN_URL, TOKEN_AUDIENCE, TOKEN_ISSUER_DOMAIN } = complete;
    const rest = { CLIENT_ORIGIN_URL, TOKEN_AUDIENCE, TOKEN_ISSUER_DOMAIN };
    const other = read({ ...rest, APP_PORT: '7070' });
    assert.ok('settings' in other);
    assert.deepEqual([other.settings.port, other.settings.portVariable], [7070, 'APP_PORT']);
    const both = read({ ...complete, APP_PORT: '7070' });
    assert.ok('settings' in both);
    assert.deepEqual([both.settings.port, both.settings.portVariable], [6060, 'PORT']);
    assert.match(
      problems({ ...rest, APP_PORT: 'x' }).join(),
      /^APP_PORT: "x" is not .*APP_PORT=6060$/,
    );
  });

  const invalid: Readonly<Record<string, readonly string[]>> = {
    PORT: ['0', '65536', '80a', '-1', '6060 ', '0x1F', '6e3'],
    CLIENT_ORIGIN_URL: [
      'http://localhost:4040/',
      'HTTP://localhost:4040',
      'https://app.example.com:443',
      'null',
      'app.example.com',
      '*',
      'ftp://x',
      'https://a.example,https://b.example',
      'https://x/y',

      'https://user@x',
      'https://x?y',
      'https://x#y',
      'https://X.example',
      'https://x y',
      'file:///x',
    ],
    TOKEN_AUDIENCE: ['a b', '\ta', 'x'.repeat(601)],
    TOKEN_ISSUER_DOMAIN: [
      'http://x',
      'http://x/y',
      'https://user@x/y',
      'x//y',
      'x/y?z',
      'x/y#z',
      'x/y z',
      'x:0',
      'x:65536',
      'user@x',
      'x y',
      '',
      'a..b',
    ].filter((text) => text !== ''),
    TOKEN_CLAIMS: ['scp', 'client=cid', 'permissions=', 'prefix=a prefix=b', 'permissions=/a~b'],
    LEAT_HOST: ['x y', 'http://x', '[::1]'],
  };
  for (const [variable, texts] of Object.entries(invalid)) {
    for (const text of texts) {
      test(`${variable}=${JSON.stringify(text.slice(0, 40))} is rejected in one line`, () => {
        for (const alone of [true, false]) {
          const [line = '', ...more] = problems({ ...complete, [variable]: text }, alone);
          assert.deepEqual(more, []);
          assert.match(line, new RegExp(`^${variable}: ".*" .*, for example ${variable}=\\S+$`));
        }
      });
    }
  }

  test('an origin in another spelling than that of browsers: the error shows theirs', () => {
    const [line = ''] = problems({
      ...complete,
      CLIENT_ORIGIN_URL: 'https://App.example.com:443/x',
    });
    assert.match(line, / is not as browsers write it, which is https:\/\/app\.example\.com, /);
  });

  test('valid values in many forms are accepted', () => {
    const valid: Readonly<Record<string, readonly string[]>> = {
      CLIENT_ORIGIN_URL: [
        'http://127.0.0.1:8080',
        'http://[::1]:8080',
        'https://xn--bcher-kva.example',
      ],
      TOKEN_AUDIENCE: ['urn:messages', 'x', 'https://x/äöü?y#z'],
      TOKEN_ISSUER_DOMAIN: [
        'localhost:8443',
        '127.0.0.1',
        '[::1]:8443',
        'tenant.eu.example.com',
        'x/y',
        'x:8443/a/b/',
        'https://x',
        'https://x/y',
      ],
      TOKEN_CLAIMS: ['permissions=/realm_access/roles', ' prefix=a/  permissions=scope '],
    };
    for (const [variable, texts] of Object.entries(valid)) {
      for (const text of texts)
        assert.deepEqual(problems({ ...complete, [variable]: text }), [], text);
    }
  });

  test('leat config: shows each setting, and its default', () => {
    const lines = describeMessageSettings(new Map([['APP_PORT', '7070']]));
    assert.match(lines.join('\n'), /^APP_PORT +7070 +port of the message API/m);
    assert.match(lines.join('\n'), /^CLIENT_ORIGIN_URL +http:\/\/localhost:4040 \(default\) /m);
    assert.match(lines.join('\n'), /^TOKEN_ISSUER_DOMAIN +first tenant \(default\) /m);
  });
});
