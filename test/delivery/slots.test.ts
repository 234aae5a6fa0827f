import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { nextWork, type Load, type Work } from '../../src/delivery/slots.ts';

const idle: Load = {
  freshWaits: false,
  dueWaits: false,
  freshInFlight: 0,
  dueInFlight: 0,
  reserved: 0,
  last: undefined,
};

describe('the slots of a stream', () => {
  test('one kind of work alone gets all slots', () => {
    assert.equal(nextWork(idle, 4), undefined);
    assert.equal(nextWork({ ...idle, freshWaits: true, freshInFlight: 3 }, 4), 'fresh');
    assert.equal(nextWork({ ...idle, dueWaits: true, dueInFlight: 3 }, 4), 'due');
    assert.equal(nextWork({ ...idle, dueWaits: true, dueInFlight: 4 }, 4), undefined);
  });

  test('fresh work takes slots that are reserved for a later claim, a quarter at most', () => {
    const full = { ...idle, freshWaits: true, dueWaits: true, dueInFlight: 8 };
    assert.equal(nextWork(full, 8), undefined);
    assert.equal(nextWork({ ...full, reserved: 1 }, 8), 'fresh');
    assert.equal(nextWork({ ...full, reserved: 1, freshInFlight: 1 }, 8), undefined);
    assert.equal(nextWork({ ...full, reserved: 8, freshInFlight: 1 }, 8), 'fresh');
    assert.equal(nextWork({ ...full, reserved: 8, freshInFlight: 2 }, 8), undefined);
    assert.equal(nextWork({ ...full, reserved: 8, freshWaits: false }, 8), undefined);
    const single = { ...full, dueInFlight: 1, reserved: 1 };
    assert.equal(nextWork(single, 1), undefined, 'they take turns instead');
  });

  test('both kinds of work take turns with a single slot', () => {
    const both = { ...idle, freshWaits: true, dueWaits: true };
    assert.equal(nextWork(both, 1), 'due');
    assert.equal(nextWork({ ...both, last: 'due' }, 1), 'fresh');
    assert.equal(nextWork({ ...both, last: 'fresh' }, 1), 'due');
  });

  test('each kind of work gets at least a quarter of the slots while both wait', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 2, max: 70 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.array(fc.boolean(), { minLength: 200, maxLength: 300 }),
        (slots, share, ends) => {
          const inFlight = { fresh: Math.floor(slots * share), due: 0 };
          inFlight.due = slots - inFlight.fresh;
          const begin = (): void => {
            const load = {
              freshWaits: true,
              dueWaits: true,
              freshInFlight: inFlight.fresh,
              dueInFlight: inFlight.due,
              reserved: 0,
              last: undefined,
            };
            const work = nextWork(load, slots);
            if (work !== undefined) inFlight[work] += 1;
          };
          // Every kind ends often enough for its share to be renewed.
          for (const due of [
            ...ends,
            ...Array.from({ length: 4 * slots }, (_, i) => i % 2 === 0),
          ]) {
            const kind: Work = (due && inFlight.due > 0) || inFlight.fresh === 0 ? 'due' : 'fresh';
            inFlight[kind] -= 1;
            begin();
          }
          const quarter = Math.floor(slots / 4);
          assert.ok(inFlight.due >= quarter, `due has ${inFlight.due} of ${slots}`);
          assert.ok(inFlight.fresh >= quarter, `fresh has ${inFlight.fresh} of ${slots}`);
          assert.ok(inFlight.fresh + inFlight.due <= slots);
        },
      ),
      { numRuns: 100 },
    );
  });
});
