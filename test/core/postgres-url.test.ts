import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { postgresServers } from '../../src/core/postgres-url.ts';

describe('postgresServers', () => {
  const valid: Record<string, [string, string[], string]> = {
    'one host, any server': ['postgres://u:p@db/leat', ['postgres://u:p@db/leat'], 'any'],
    'one host that must accept writes': [
      'postgres://db:5433/leat?target_session_attrs=read-write',
      ['postgres://db:5433/leat'],
      'read-write',
    ],
    'a socket': ['postgres:///leat?host=/run', ['postgres:///leat?host=/run'], 'any'],
    'several hosts, each with its own port': [
      'postgres://u:p@a,b:5433,[::1]:5434/leat',
      ['postgres://u:p@a/leat', 'postgres://u:p@b:5433/leat', 'postgres://u:p@[::1]:5434/leat'],
      'read-write',
    ],
    'several hosts of which any may be used': [
      'postgresql://a,b/leat?target_session_attrs=any',
      ['postgresql://a/leat', 'postgresql://b/leat'],
      'any',
    ],
    'other parameters in their order': [
      'postgres://a,b/leat?sslmode=require&target_session_attrs=primary&sslrootcert=/ca.pem',
      [
        'postgres://a/leat?sslmode=require&sslrootcert=/ca.pem',
        'postgres://b/leat?sslmode=require&sslrootcert=/ca.pem',
      ],
      'primary',
    ],
    'a comma in the password': [
      'postgres://u:p,q@a,b/leat',
      ['postgres://u:p,q@a/leat', 'postgres://u:p,q@b/leat'],
      'read-write',
    ],
  };
  for (const [name, [text, urls, session]] of Object.entries(valid)) {
    test(`postgresServers: accepts ${name}`, () => {
      const parsed = postgresServers(text);
      assert.ok(!('problem' in parsed));
      assert.deepEqual(
        parsed.servers.map(({ url }) => url),
        urls,
      );
      assert.equal(parsed.session, session);
    });
  }

  test('postgresServers: the name of a server has its port and no password', () => {
    const parsed = postgresServers('postgres://u:p@a,[::1]:5433/leat');
    assert.ok(!('problem' in parsed));
    assert.deepEqual(
      parsed.servers.map(({ name }) => name),
      ['a', '[::1]:5433'],
    );
  });

  const invalid: Record<string, [string, RegExp]> = {
    'another scheme': ['mysql://a,b/leat', /postgres:\/\//],
    'an empty host': ['postgres://a,,b/leat', /empty host/],
    'a comma at the end': ['postgres://a,/leat', /empty host/],
    'a port that is too large': ['postgres://a,b:65536/leat', /port from 1 to 65535/],
    'port 0': ['postgres://a:0,b/leat', /port from 1 to 65535/],
    'a port that is not a number': ['postgres://a,b:x/leat', /name:port/],
    'an IPv6 address without brackets': ['postgres://a,::1/leat', /\[IPv6 address\]/],
    'brackets around something else': ['postgres://a,[b]/leat', /\[IPv6 address\]/],
    'servers that accept no writes': [
      'postgres://a,b/leat?target_session_attrs=standby',
      /read-write, primary, any/,
    ],
    'an empty parameter': ['postgres://a/leat?target_session_attrs=', /read-write, primary, any/],
  };
  for (const [name, [text, problem]] of Object.entries(invalid)) {
    test(`postgresServers: rejects ${name}`, () => {
      const parsed = postgresServers(text);
      assert.ok('problem' in parsed);
      assert.match(parsed.problem, problem);
    });
  }
});
