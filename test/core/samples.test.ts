import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { catalogue } from '../../src/core/catalogue.ts';
import { sampleData } from '../../src/core/samples.ts';

const facts = { now: 1_772_357_400_000, service: 'leat', issuer: 'https://leat.example.com/' };

describe('the catalogue', () => {
  test('the catalogue has 25 different types', () => {
    assert.equal(new Set(catalogue).size, 25);
    assert.equal(catalogue.length, 25);
  });

  test('the types of the catalogue are well-formed', () => {
    for (const type of catalogue) assert.match(type, /^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$/);
  });
});

describe('sampleData', () => {
  test('sampleData returns a complete user for user types', () => {
    const { object } = sampleData('user.created', facts);
    assert.deepEqual(
      Object.entries(object).filter(([, value]) => value === undefined),
      [],
    );
    assert.deepEqual(
      {
        ...object,
        user_id: 'leat|65e1a0b2c3d4e5f60718293a',
        created_at: '2026-03-01T09:30:00.000Z',
      },
      object,
    );
    assert.equal('deleted_at' in object, false);
    assert.equal('deleted_at' in sampleData('user.deleted', facts).object, true);
  });

  test('sampleData returns an empty object for a type outside the catalogue', () => {
    assert.deepEqual(sampleData('order.paid', facts), { object: {} });
    assert.deepEqual(sampleData('user.paid', facts), { object: {} });
    assert.deepEqual(sampleData('__proto__.x', facts), { object: {} });
  });
});
