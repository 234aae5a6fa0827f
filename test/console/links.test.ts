import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { links, pageAddresses } from '../../src/console/links.ts';

describe('addresses of the console', () => {
  // Pages have it as the beginning of their address; it is none itself.
  const { dismissals, ...ofPages } = links;

  for (const [name, link] of Object.entries(ofPages)) {
    test(`links.${name} leads to a page, also with parameters`, () => {
      const address = typeof link === 'string' ? link : link('a/b?c#d é', 'code');
      // An address has the id of a stream, a redelivery or an entry of the audit log as it is.
      const shown = address.replace('a/b?c#d é', 'est_1');
      assert.match(shown, pageAddresses);
      assert.match(`${shown}${shown.includes('?') ? '&' : '?'}q=/docs`, pageAddresses);
    });
  }

  for (const address of [
    '/console/login',
    '/console/login?to=%2Fconsole%2Fstreams',
    '/console/callback?code=1',
    '/console/session',
    '/console/assets/main.js',
    '/console/unknown',
    '/console/streams/a/b',
    '/consoles',
    '/docs',
    '/api/v2/event-streams',
    '/readyz',
    'https://example.com/console/streams',
    '//example.com/console/streams',
    '#page',
    '',
    dismissals,
  ]) {
    test(`${JSON.stringify(address)} is left to the browser`, () => {
      assert.doesNotMatch(address, pageAddresses);
    });
  }
});
