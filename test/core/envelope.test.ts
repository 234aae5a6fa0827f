import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { deliveryBody, makeBody, type EnvelopeParts } from '../../src/core/envelope.ts';

const parts: EnvelopeParts = {
  id: 'evt_b8dLcukC7edhDQ7cn5d4gE',
  type: 'user.created',
  time: 1_772_357_400_971,
  data: { object: { user_id: 'leat|65e1a0b2c3d4e5f60718293a' } },
  tenantName: 'main',
  service: 'leat',
  prefix: 'svc',
};

describe('makeBody', () => {
  test('makeBody makes the envelope without the field of a stream', () => {
    assert.deepEqual(JSON.parse(makeBody(parts)), {
      id: 'evt_b8dLcukC7edhDQ7cn5d4gE',
      source: 'urn:leat:',
      specversion: '1.0',
      type: 'user.created',
      time: '2026-03-01T09:30:00.971Z',
      data: { object: { user_id: 'leat|65e1a0b2c3d4e5f60718293a' } },
      svctenant: 'main',
    });
  });

  test('makeBody marks test events only', () => {
    assert.equal(JSON.parse(makeBody({ ...parts, purpose: 'test' })).svcpurpose, 'test');
    assert.equal('svcpurpose' in JSON.parse(makeBody(parts)), false);
  });

  test('makeBody names source and attributes after service and prefix', () => {
    const body = JSON.parse(makeBody({ ...parts, service: 'acme', prefix: 'a0', purpose: 'test' }));
    assert.equal(body.source, 'urn:acme:');
    assert.equal(body.a0tenant, 'main');
    assert.equal(body.a0purpose, 'test');
  });

  test('makeBody adds further attributes unchanged', () => {
    const extensions = { subject: 'x"y\n', traceflags: 1, sampled: true };
    const body = JSON.parse(makeBody({ ...parts, extensions }));
    assert.deepEqual({ ...body, ...extensions }, body);
    assert.equal(makeBody({ ...parts, extensions: {} }), makeBody(parts));
  });

  test('makeBody keeps any data unchanged, including hostile texts and names', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const data = { object: value };
        const body = deliveryBody(makeBody({ ...parts, data }), 'svc', 'est_1');
        assert.equal(JSON.stringify(JSON.parse(body).data), JSON.stringify(data));
      }),
    );
    const data = JSON.parse('{"__proto__": {"polluted": 1}, "constructor": null, "toJSON": 1}');
    assert.match(makeBody({ ...parts, data }), /"data":\{"__proto__":\{"polluted":1\}/);
  });
});

describe('deliveryBody', () => {
  test('deliveryBody adds the stream as the last field', () => {
    const body = makeBody(parts);
    const delivered = JSON.parse(deliveryBody(body, 'svc', 'est_MASi45ub7Qe4ZE36UT5G6c'));
    assert.deepEqual(delivered, {
      ...JSON.parse(body),
      svcstream: 'est_MASi45ub7Qe4ZE36UT5G6c',
    });
    assert.equal(Object.keys(delivered).at(-1), 'svcstream');
  });
});
