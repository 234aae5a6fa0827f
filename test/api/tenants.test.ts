import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { describe, test } from 'node:test';
import { createClientAddressReader } from '../../src/api/http/client-address.ts';
import { secondTenant } from '../auth/fixture.ts';
import { exchange, requestText } from '../helpers/exchange.ts';
import { openApiFixture, type ApiFixture } from './fixture.ts';

async function list(
  fixture: ApiFixture,
  host: string,
  token: string,
  forwarded?: string,
): Promise<number> {
  const headers = [`Host: ${host}`, `Authorization: Bearer ${token}`, 'Connection: close'];
  if (forwarded !== undefined) headers.push(`X-Forwarded-Host: ${forwarded}`);
  const request = requestText('GET /api/v2/event-streams', headers);
  return (await exchange(fixture.port, request.replace('Host: 127.0.0.1\r\n', ''))).status;
}

describe('the tenant', () => {
  test('a single tenant serves every Host', async (t) => {
    const fixture = await openApiFixture();
    t.after(() => fixture.close());
    for (const host of ['leat.example.com', 'anything', '127.0.0.1:1']) {
      assert.equal(await list(fixture, host, fixture.token), 200, host);
    }
  });

  test('several tenants are chosen by Host, ignoring case, a dot at its end and a default port', async (t) => {
    const fixture = await openApiFixture({ unknownHost: 'refuse' });
    t.after(() => fixture.close());
    const other = await secondTenant(fixture.auth);
    fixture.auth.clock.move(10_000);
    await fixture.send('GET', '/event-streams');
    for (const host of [
      'leat.example.com',
      'LEAT.example.com',
      'leat.example.com:443',
      'leat.example.com.',
      'LEAT.example.com.:80',
    ]) {
      assert.equal(await list(fixture, host, fixture.token), 200, host);
    }
    assert.equal(
      await list(fixture, other.tenant.domain, fixture.token),
      401,
      'nothing crosses tenants',
    );
    for (const host of ['nobody.example.com', 'leat.example.com:8443']) {
      assert.equal(await list(fixture, host, fixture.token), 404, host);
    }
    assert.equal(await list(fixture, '', fixture.token), 400, 'no host');
    assert.equal((await fixture.raw('GET', '/healthz')).status, 200, 'health belongs to no tenant');
  });

  test('a trusted proxy chooses the tenant by X-Forwarded-Host', async (t) => {
    const trusting = await openApiFixture({ trustProxy: ['127.0.0.1'], unknownHost: 'refuse' });
    t.after(() => trusting.close());
    await secondTenant(trusting.auth);
    trusting.auth.clock.move(10_000);
    await trusting.raw('GET', '/healthz');
    const { domain } = trusting.auth.tenant;
    assert.equal(await list(trusting, 'internal', trusting.token, domain), 200);
    assert.equal(await list(trusting, domain, trusting.token, 'internal'), 404);
  });
});

describe('the client address', () => {
  const read = (trusted: string[], peer: string, forwarded?: string, host?: string): string => {
    const headers = { host: 'own', 'x-forwarded-for': forwarded, 'x-forwarded-host': host };
    const rawHeaders = ['Host', 'own'];
    const socket = { remoteAddress: peer };
    const request = { socket, headers, rawHeaders } as unknown as IncomingMessage;
    const client = createClientAddressReader(trusted)(request);
    return `${client.address} ${client.host}`;
  };
  const rows: [trusted: string[], peer: string, forwarded: string | undefined, client: string][] = [
    [[], '192.0.2.1', '198.51.100.1', '192.0.2.1 own'],
    [['10.0.0.0/8'], '192.0.2.1', '198.51.100.1', '192.0.2.1 own'],
    [['10.0.0.0/8'], '10.0.0.1', '198.51.100.1', '198.51.100.1 seen'],
    [['10.0.0.0/8'], '::ffff:10.0.0.1', '198.51.100.1', '198.51.100.1 seen'],
    [['10.0.0.0/8'], '10.0.0.1', '6.6.6.6, 198.51.100.1, 10.0.0.2', '198.51.100.1 seen'],
    [['10.0.0.0/8'], '10.0.0.1', '10.0.0.3,10.0.0.2', '10.0.0.3 seen'],
    [['10.0.0.0/8'], '10.0.0.1', undefined, '10.0.0.1 seen'],
    [['10.0.0.0/8'], '10.0.0.1', 'garbage', '10.0.0.1 seen'],
    [['10.0.0.0/8'], '10.0.0.1', '1.2.3.4, garbage, 10.0.0.2', '10.0.0.2 seen'],
    [['2001:db8::/32'], '2001:db8::1', '2001:db9::1', '2001:db9::1 seen'],
    [['192.0.2.1'], '192.0.2.1', '198.51.100.1', '198.51.100.1 seen'],
    // Entries as proxies send them: docs/production.md#entries-of-x-forwarded-for.
    [['10.0.0.0/8'], '10.0.0.1', '198.51.100.1:54321', '198.51.100.1 seen'],
    [['10.0.0.0/8'], '10.0.0.1', '6.6.6.6, 198.51.100.1:5, 10.0.0.2:443', '198.51.100.1 seen'],
    [['10.0.0.0/8'], '10.0.0.1', '[2001:db8::1]:443', '2001:db8::1 seen'],
    [['10.0.0.0/8'], '10.0.0.1', '[2001:db8::1]', '2001:db8::1 seen'],
    [['10.0.0.0/8'], '10.0.0.1', '"[2001:db8::1]:443"', '2001:db8::1 seen'],
    [['10.0.0.0/8'], '10.0.0.1', '"198.51.100.1"', '198.51.100.1 seen'],
    [['10.0.0.0/8'], '10.0.0.1', '198.51.100.1:_port', '198.51.100.1 seen'],
    [['2001:db8::/32'], '2001:db8::1', '198.51.100.1, [2001:db8::2]:9', '198.51.100.1 seen'],
    // Azure Front Door, then Application Gateway.
    [
      ['10.0.0.0/8', '147.243.0.0/16'],
      '10.0.0.4',
      '6.6.6.6, 203.0.113.7, 147.243.1.9:61234',
      '203.0.113.7 seen',
    ],
    // AWS Application Load Balancer, by default and with routing.http.xff_client_port.enabled.
    [['10.0.0.0/8'], '10.0.0.9', '203.0.113.7', '203.0.113.7 seen'],
    [['10.0.0.0/8'], '10.0.0.9', '6.6.6.6, 203.0.113.7:47520', '203.0.113.7 seen'],
    [
      ['10.0.0.0/8'],
      '10.0.0.9',
      '[2001:db8:85a3::8a2e:370:7334]:47520',
      '2001:db8:85a3::8a2e:370:7334 seen',
    ],
    // Cloudflare, then nginx with $proxy_add_x_forwarded_for.
    [
      ['10.0.0.5', '173.245.48.0/20'],
      '10.0.0.5',
      '6.6.6.6,203.0.113.7, 173.245.48.3',
      '203.0.113.7 seen',
    ],
    // nginx of docs/production.md, Caddy.
    [['10.0.0.5'], '10.0.0.5', '2001:db8::7', '2001:db8::7 seen'],
    [['192.0.2.1'], '192.0.2.2', '198.51.100.1', '192.0.2.2 own'],
  ];
  for (const [trusted, peer, forwarded, client] of rows) {
    test(`${peer}, forwarded "${forwarded}", trusted ${trusted.join() || 'none'}: ${client}`, () => {
      assert.equal(read(trusted, peer, forwarded, 'seen'), client);
    });
  }

  const unreadable = [
    'unknown',
    '_hidden',
    '"_SEVKISEK"',
    '[198.51.100.1]:80',
    '[2001:db8::1',
    '2001:db8::1]:80',
    '"198.51.100.1',
    '198.51.100.1:',
    '198.51.100.1:port',
    '198.51.100.256:80',
    'client.example:80',
    '[2001:db8::1]:443:443',
    '"',
  ];
  for (const entry of unreadable) {
    test(`X-Forwarded-For: the entry ${entry} names no address, and is reported once`, () => {
      const reported: string[] = [];
      const clientAddressOf = createClientAddressReader(['10.0.0.1'], (each) =>
        reported.push(each),
      );
      const socket = { remoteAddress: '10.0.0.1' };
      for (const forwarded of [entry, '198.51.100.1', `198.51.100.1, ${entry}`, 'other']) {
        const headers = { host: 'own', 'x-forwarded-for': forwarded };
        const { address, isProxy } = clientAddressOf({
          socket,
          headers,
        } as unknown as IncomingMessage);
        const isNamed = forwarded === '198.51.100.1';
        assert.deepEqual([address, isProxy], isNamed ? [forwarded, false] : ['10.0.0.1', true]);
      }
      assert.deepEqual(reported, [entry]);
    });
  }
});
