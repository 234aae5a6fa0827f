import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { urlOf } from '../../src/program/listen-address.ts';

describe('the URL of a listener', () => {
  const cases: [host: string, url: string][] = [
    ['leat.example.com', 'http://leat.example.com:8080'],
    ['192.0.2.1', 'http://192.0.2.1:8080'],
    ['2001:db8::1', 'http://[2001:db8::1]:8080'],
    ['0.0.0.0', 'http://127.0.0.1:8080'],
    ['::', 'http://[::1]:8080'],
    ['0:0:0:0:0:0:0:0', 'http://[::1]:8080'],
  ];
  for (const [host, url] of cases) {
    test(`the URL of a listener on ${host} is ${url}`, () => {
      assert.equal(urlOf({ host, port: 8080 }, { tls: false }), url);
    });
  }

  test('the URL of a listener with TLS begins with https', () => {
    const listening = { host: 'localhost', port: 8443 };
    assert.equal(urlOf(listening, { tls: true }), 'https://localhost:8443');
  });
});
