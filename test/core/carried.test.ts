import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { carriedBytesMax, carry } from '../../src/core/carried.ts';

const names = ['addons', 'callbacks', 'description', '__proto__', 'constructor'];

/** Returns the fields after a request, or what is wrong with it. */
function after(before: unknown, sent: object): unknown {
  const result = carry(before === undefined ? undefined : JSON.stringify(before), sent, names);
  if ('fault' in result) return `${result.fault.field}: ${result.fault.reason}`;
  return result.json === undefined ? undefined : JSON.parse(result.json);
}

describe('carry', () => {
  test('a field that is sent replaces the former, null removes it, others stay', () => {
    const first = { callbacks: ['a'], description: 'b' };
    assert.deepEqual(after(undefined, first), first);
    assert.deepEqual(after(first, {}), first);
    assert.deepEqual(after(first, { callbacks: [] }), { callbacks: [], description: 'b' });
    assert.deepEqual(after(first, { callbacks: null }), { description: 'b' });
    assert.deepEqual(after(first, { callbacks: undefined }), first);
    assert.equal(after(first, { callbacks: null, description: null }), undefined);
    assert.equal(after(undefined, { callbacks: null }), undefined);
  });

  test('fields that are not listed do not count', () => {
    assert.equal(after(undefined, { name: 'x', toString: 'y' }), undefined);
  });

  test('names of the prototype are names like any other, at any depth', () => {
    for (const text of [
      '{"__proto__":{"a":1}}',
      '{"constructor":{"prototype":1}}',
      '{"callbacks":{"__proto__":{"x":1},"toString":null}}',
    ]) {
      const result = carry(undefined, JSON.parse(text) as object, names);
      assert.deepEqual(result, { json: text });
      assert.deepEqual(carry(text, {}, names), { json: text });
    }
    assert.equal(Object.hasOwn(Object.prototype, 'a'), false);
  });

  test('all fields together have at most 64 KiB, counted in bytes', () => {
    const fits = 'ä'.repeat((carriedBytesMax - '{"description":""}'.length) / 2);
    assert.deepEqual(after(undefined, { description: fits }), { description: fits });
    assert.match(
      String(after(undefined, { description: `${fits}a` })),
      /^description: Carried fields are too long together \(65537 bytes\), maximum 65536$/,
    );
    assert.match(
      String(after({ description: fits }, { callbacks: [] })),
      /^callbacks: Carried fields are too long together/,
    );
    assert.deepEqual(after({ description: fits }, { callbacks: [1], description: null }), {
      callbacks: [1],
    });
  });

  test('fields of before this limit do not prevent other changes', () => {
    const long = { description: 'x'.repeat(carriedBytesMax) };
    assert.deepEqual(after(long, {}), long);
  });

  test('a private key is rejected, a public one is not', () => {
    for (const kind of ['', 'RSA ', 'EC ', 'ENCRYPTED ', 'OPENSSH ']) {
      const pem = `text\n-----BEGIN ${kind}PRIVATE KEY-----\nMIIE\n`;
      const sent = { callbacks: { private_key_jwt: [{ pem }] } };
      const fault = 'A private key, which Leat does not store';
      assert.equal(after(undefined, sent), `callbacks: ${fault}`, kind);
    }
    const sent = { callbacks: { pem: '-----BEGIN PUBLIC KEY-----\nMIIB\n' } };
    assert.deepEqual(after(undefined, sent), sent);
  });

  test('addons: a password or key of another service is rejected, other settings are not', () => {
    const secrets: [addon: string, field: string][] = [
      ['azure_blob', 'storageAccessKey'],
      ['azure_sb', 'sasKey'],
      ['firebase', 'secret'],
      ['firebase', 'private_key'],
      ['layer', 'privateKey'],
      ['sap_api', 'servicePassword'],
      ['wams', 'masterkey'],
    ];
    for (const [addon, field] of secrets) {
      assert.equal(
        after(undefined, { addons: { [addon]: { [field]: 'x' } } }),
        `addons: A secret, which Leat does not store: ${field}`,
      );
      const empty = { addons: { [addon]: { [field]: '' } } };
      assert.deepEqual(after(undefined, empty), empty);
    }
    const sent = { addons: { samlp: { audience: 'urn:a', mappings: { secret_id: 'x' } } } };
    assert.deepEqual(after(undefined, sent), sent);
  });
});
