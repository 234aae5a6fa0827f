import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { type FilterViolation, parseFilter, storedFilter } from '../../src/core/filter.ts';
import { Fields } from '../../src/core/filter-fields.ts';
import { type Filter, matching } from '../../src/core/filter-program.ts';
import type { Json } from '../../src/core/filter-values.ts';
import { runSync } from '../../src/core/slices.ts';
import { rounds } from '../helpers/rounds.ts';

const example = {
  type: 'user.created',
  'data.object.email_verified': true,
  'data.object.app_metadata.plan': { $in: ['pro', 'team'] },
  $or: [
    { 'data.object.email': { $endsWith: '@example.com' } },
    { 'data.object.logins': { $gte: 5 } },
  ],
};

describe('a filter', () => {
  test('all fields of a condition and one of $or have to match', () => {
    const event = (object: object, type = 'user.created'): object => ({ type, data: { object } });
    const user = { email_verified: true, app_metadata: { plan: 'pro' } };
    assert.equal(fits(example, event({ ...user, email: 'ada@example.com' })), true);
    assert.equal(fits(example, event({ ...user, email: 'ada@example.org', logins: 5 })), true);
    assert.equal(fits(example, event({ ...user, email: 'ada@example.org', logins: 4 })), false);
    assert.equal(fits(example, event({ ...user, logins: 5 }, 'user.deleted')), false);
    assert.equal(fits(example, event({ ...user, email_verified: 'true', logins: 5 })), false);
  });

  test('an empty condition matches every event', () => {
    assert.equal(fits({}, {}), true);
    assert.equal(fits({ $not: {} }, {}), false);
  });

  test('a stored filter decides as the one that was parsed', () => {
    const parsed = parseFilter(example);
    assert.ok('json' in parsed);
    assert.deepEqual(JSON.parse(parsed.json), example);
    const stored = storedFilter(parsed.json);
    assert.equal(runSync(stored.matches({ type: 'user.deleted' })), false);
  });

  test('a stored text that is no filter is an error', () => {
    assert.throws(() => storedFilter('{"a":{"$new":1}}'), /a\.\$new/);
  });
});

describe('comparisons of a filter', () => {
  test('values of different JSON types are never equal and have no order', () => {
    const values: Json[] = [0, '0', '', false, null, [], {}];
    for (const value of values) {
      for (const operand of values) {
        assert.equal(
          fits({ a: { $eq: operand } }, { a: value }),
          value === operand || same(value, operand),
        );
      }
    }
    assert.equal(fits({ a: { $gte: 0 } }, { a: '5' }), false);
    assert.equal(fits({ a: { $lt: '5' } }, { a: 4 }), false);
    assert.equal(fits({ a: { $gte: 0 } }, { a: null }), false);
    assert.equal(fits({ a: { $gte: 0 } }, { a: true }), false);
  });

  test('a missing field matches only $ne, $nin, $not and $exists: false', () => {
    const negations = [{ $ne: 1 }, { $nin: [1] }, { $not: { $gt: 1 } }, { $exists: false }];
    for (const operators of negations) assert.equal(fits({ a: operators }, {}), true);
    const others = [
      { $eq: null },
      { $in: [null] },
      { $gt: 0 },
      { $lte: 0 },
      { $contains: '' },
      { $startsWith: '' },
      { $endsWith: '' },
      { $exists: true },
    ];
    for (const operators of others) assert.equal(fits({ a: operators }, {}), false);
  });

  test('null is a value', () => {
    assert.equal(fits({ a: null }, { a: null }), true);
    assert.equal(fits({ a: { $exists: true } }, { a: null }), true);
    assert.equal(fits({ a: { $ne: null } }, { a: null }), false);
    assert.equal(fits({ a: null }, { a: 0 }), false);
  });

  test('an array matches when it equals the value or one of its elements does', () => {
    const event = { tags: ['new', 'vip'], nested: [['a'], { b: 1 }] };
    assert.equal(fits({ tags: 'vip' }, event), true);
    assert.equal(fits({ tags: ['new', 'vip'] }, event), true);
    assert.equal(fits({ tags: ['vip', 'new'] }, event), false);
    assert.equal(fits({ tags: { $in: ['x', 'new'] } }, event), true);
    assert.equal(fits({ tags: { $ne: 'vip' } }, event), false);
    assert.equal(fits({ tags: { $startsWith: 'vi' } }, event), true);
    assert.equal(fits({ nested: ['a'] }, event), true);
    assert.equal(fits({ nested: { b: 1 } }, event), true);
    assert.equal(fits({ nested: 'a' }, event), false);
  });

  test('$contains looks for a substring or an element', () => {
    assert.equal(fits({ a: { $contains: 'ell' } }, { a: 'hello' }), true);
    assert.equal(fits({ a: { $contains: 'ell' } }, { a: ['hello'] }), false);
    assert.equal(fits({ a: { $contains: 'hello' } }, { a: ['hello'] }), true);
    assert.equal(fits({ a: { $contains: { b: [1] } } }, { a: [{ b: [1] }] }), true);
    assert.equal(fits({ a: { $contains: 5 } }, { a: '5' }), false);
    assert.equal(fits({ a: { $contains: 'b' } }, { a: { b: 1 } }), false);
  });

  test('the order of fields does not count for equal objects, each of their fields does', () => {
    assert.equal(fits({ a: { b: 1, c: [2] } }, { a: { c: [2], b: 1 } }), true);
    assert.equal(fits({ a: { b: 1 } }, { a: { b: 1, c: 2 } }), false);
    assert.equal(fits({ a: { b: 1, c: 2 } }, { a: { b: 1 } }), false);
    assert.equal(fits({ a: { b: '1' } }, { a: { b: 1 } }), false);
  });

  test('texts of objects cannot be made to look like others', () => {
    assert.equal(fits({ a: { 'b":1,"c': 2 } }, { a: { b: 1, c: 2 } }), false);
    assert.equal(fits({ a: ['1,2'] }, { a: [1, 2] }), false);
    assert.equal(fits({ a: ['1","2'] }, { a: ['1', '2'] }), false);
    assert.equal(fits({ a: [[1], 2] }, { a: [[1, 2]] }), false);
  });

  test('dots lead into objects and a number into an array', () => {
    const event = { a: [{ b: 1 }, { b: 2 }], 'c.d': 1, e: { '0': 'x' } };
    assert.equal(fits({ 'a.1.b': 2 }, event), true);
    assert.equal(fits({ 'a.b': 2 }, event), false);
    assert.equal(fits({ 'a.01.b': { $exists: true } }, event), false);
    assert.equal(fits({ 'a.-1': { $exists: true } }, event), false);
    assert.equal(fits({ 'a.length': { $exists: true } }, event), false);
    assert.equal(fits({ 'c.d': 1 }, event), false);
    assert.equal(fits({ 'e.0': 'x' }, event), true);
    assert.equal(fits({ 'a.0.b.c': { $exists: false } }, event), true);
  });
});

describe('hostile events', () => {
  test('names of prototypes are names like others', () => {
    for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'prototype']) {
      const has = { [`data.${name}`]: { $exists: true } };
      assert.equal(fits(has, { data: {} }), false, name);
      assert.equal(fits(has, { data: [] }), false, name);
      assert.equal(fits(has, { data: 'text' }), false, name);
      assert.equal(fitsText(`{"data.${name}":1}`, `{"data":{"${name}":1}}`), true, name);
      assert.equal(fitsText(`{"data":{"${name}":1}}`, `{"data":{"${name}":1}}`), true, name);
      assert.equal(fitsText(`{"data":{"${name}":1}}`, `{"data":{}}`), false, name);
    }
  });

  test('strings are read up to 4,096 characters', () => {
    const long = `${'a'.repeat(4096)}b`;
    assert.equal(fits({ a: { $contains: 'b' } }, { a: long }), false);
    assert.equal(fits({ a: { $endsWith: 'a' } }, { a: long }), true);
    assert.equal(fits({ a: 'a'.repeat(4096) }, { a: long }), true);
    assert.equal(fits({ a: ['a'.repeat(4096)] }, { a: [long] }), true);
    assert.equal(fits({ a: { $gt: 'a'.repeat(4096) } }, { a: long }), false);
  });

  test('arrays are read up to 1,000 elements', () => {
    const long = [...Array.from({ length: 1000 }, () => 0), 1];
    assert.equal(fits({ a: 1 }, { a: long }), false);
    assert.equal(fits({ a: long.slice(0, 1000) }, { a: long }), true);
    assert.equal(fits({ 'a.999': 0 }, { a: long }), true);
    assert.equal(fits({ 'a.1000': { $exists: true } }, { a: long }), false);
  });

  test('-0 equals 0', () => {
    assert.equal(fitsText('{"a":0}', '{"a":-0}'), true);
    assert.equal(fitsText('{"a":[-0]}', '{"a":[0]}'), true);
    assert.equal(fitsText('{"a":{"$lt":0}}', '{"a":-0}'), false);
  });

  test('a number beyond the largest one is greater than all others', () => {
    assert.equal(fitsText('{"a":{"$gt":1e308}}', '{"a":1e400}'), true);
    assert.equal(fitsText('{"a":{"$lt":-1e308}}', '{"a":-1e400}'), true);
    assert.equal(fitsText('{"a":[1]}', '{"a":[1e400]}'), false);
  });

  test('numbers beyond 2^53 compare as JavaScript reads them, those in strings as strings', () => {
    assert.equal(fitsText('{"a":9007199254740993}', '{"a":9007199254740992}'), true);
    assert.equal(fitsText('{"a":"9007199254740993"}', '{"a":"9007199254740992"}'), false);
    assert.equal(fitsText('{"a":"1"}', '{"a":1}'), false);
  });

  test('the last one of fields with the same name counts', () => {
    assert.equal(fitsText('{"a":2}', '{"a":1,"a":2}'), true);
    assert.equal(fitsText('{"a":1}', '{"a":1,"a":2}'), false);
  });

  test('lone surrogates are characters', () => {
    assert.equal(fitsText('{"a":"\\ud83d"}', '{"a":"\\ud83d"}'), true);
    assert.equal(fitsText('{"a":["\\ud83d"]}', '{"a":["\\\\ud83d"]}'), false);
    assert.equal(fitsText('{"a":{"$contains":"\\ude00"}}', '{"a":"😀"}'), true);
  });

  test('an event that nests deeply does not exhaust the stack', () => {
    const depth = 50_000;
    const deep = `${'['.repeat(depth)}${']'.repeat(depth)}`;
    assert.equal(fitsText('{"a":[[]]}', `{"a":${deep}}`), false);
    const objects = `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`;
    assert.equal(fitsText('{"a":{"a":1}}', objects), false);
    assert.equal(fitsText('{"a.a.a.a":{"$exists":true}}', objects), true);
  });

  test('an evaluation of much work pauses and has the result that it has without pauses', () => {
    const row = (last: number): number[] => [...Array.from({ length: 80 }, () => 1), last];
    const event = { a: Array.from({ length: 1000 }, () => row(2)) };
    const condition = {
      $or: [...Array.from({ length: 63 }, () => ({ a: row(3) })), { a: row(2) }],
    };
    const steps = filterOf(condition).matches(event);
    let pauses = 0;
    let step = steps.next();
    for (; step.done !== true; step = steps.next()) pauses += 1;
    assert.equal(step.value, true);
    assert.ok(pauses > 5, `${pauses} pauses`);
  });

  test('the work of an evaluation grows with the texts that it compares', () => {
    const workOf = (condition: object, list: readonly string[]): number => {
      const filter = filterOf(condition);
      const work = { left: 1e9 };
      filter.evaluate(new Fields({ list }), filter.start, work);
      return 1e9 - work.left;
    };
    const texts = Array<string>(1000).fill('y'.repeat(240));
    for (const operator of ['$startsWith', '$endsWith', '$gt']) {
      const work = workOf({ list: { [operator]: `z${'y'.repeat(149)}` } }, texts);
      assert.ok(work > 1000 * 50, `${operator}: ${work}`);
    }
    const long = Array<string>(60).fill('z'.repeat(4100));
    assert.ok(workOf({ list: { $in: ['a', 'b'] } }, long) > 60 * 100);
  });

  test('a usual evaluation does not pause', () => {
    const work = { left: 200 };
    const filter = filterOf(example);
    assert.ok(filter.evaluate(new Fields({ type: 'user.created' }), filter.start, work) < 0);
    assert.ok(work.left > 0);
  });
});

describe('a condition that is no filter', () => {
  const rejects = (condition: unknown, path: string, reason: RegExp): void => {
    const violation = violationOf(condition);
    assert.equal(violation?.path, path);
    assert.match(violation.reason, reason);
  };

  test('an unknown operator is named by its path', () => {
    rejects({ 'data.object.name': { $regex: 'a' } }, 'data.object.name.$regex', /Unknown operator/);
    rejects({ $nor: [{ a: 1 }] }, '$nor', /\$and, \$or and \$not/);
    rejects({ $or: [{ a: 1 }, { b: { $not: { $size: 1 } } }] }, '$or.1.b.$not.$size', /Unknown/);
    rejects({ $gt: 5 }, '$gt', /An operator of a field/);
    rejects({ $where: 'true' }, '$where', /Unknown operator/);
  });

  test('operands of a wrong type are rejected', () => {
    rejects([], '', /Expected a condition/);
    rejects(null, '', /found null/);
    rejects('{"a":1}', '', /found a string/);
    rejects({ $and: { a: 1 } }, '$and', /Expected an array of conditions but found an object/);
    rejects({ $or: [] }, '$or', /found an empty array/);
    rejects({ $or: [1] }, '$or.0', /found a number/);
    rejects({ $not: [{ a: 1 }] }, '$not', /Expected a condition/);
    rejects({ a: { $in: 'pro' } }, 'a.$in', /Expected an array of values but found a string/);
    rejects({ a: { $nin: {} } }, 'a.$nin', /Expected an array/);
    rejects({ a: { $gt: null } }, 'a.$gt', /Expected a number or a string but found null/);
    rejects({ a: { $lte: [1] } }, 'a.$lte', /found an array/);
    rejects({ a: { $exists: 1 } }, 'a.$exists', /Expected true or false/);
    rejects({ a: { $startsWith: 1 } }, 'a.$startsWith', /Expected a string/);
    rejects({ a: { $endsWith: ['x'] } }, 'a.$endsWith', /Expected a string/);
    rejects({ a: { $not: 'x' } }, 'a.$not', /for a value use \$ne/);
    rejects({ a: { $not: {} } }, 'a.$not', /Expected operators/);
  });

  test('operators and names do not mix', () => {
    rejects({ a: { $gt: 1, b: 2 } }, 'a.b', /only operators/);
    rejects({ a: { b: { $gt: 1 } } }, 'a.b.$gt', /write the field with dots/);
    rejects({ a: [{ $gt: 1 }] }, 'a.0.$gt', /write the field with dots/);
    assert.equal(fits({ a: { $eq: { $gt: 1 } } }, { a: { $gt: 1 } }), true);
  });

  test('a name without characters, and what only begins like a JSON Pointer, is rejected', () => {
    for (const name of ['', '.a', 'a.', 'a..b', '/a~', '/~2']) {
      rejects({ [name]: 1 }, name, /No field: write its names with one dot/);
    }
  });

  test('a field is named with dots or by a JSON Pointer, which can name every field', () => {
    const event = { data: { list: [{ 'a.b': 1, 'c/d': 2, '~': 3, '': 4 }], n: 5 } };
    for (const condition of [
      { 'data.n': 5, '/data/n': 5 },
      { '/data/list/0/a.b': 1 },
      { '/data/list/0/c~1d': { $gt: 1 } },
      { $or: [{ '/data/list/0/~0': 3 }] },
      { '/data/list/0/': { $exists: true } },
    ]) {
      assert.equal(fits(condition, event), true, JSON.stringify(condition));
    }
    for (const condition of [{ '/data.n': 5 }, { '/data/n/0': 5 }, { 'data.list.0.a.b': 1 }]) {
      assert.equal(fits(condition, event), false, JSON.stringify(condition));
    }
  });

  test('64 conditions are allowed, one more is not', () => {
    const list = (length: number): object => ({ $or: Array.from({ length }, () => ({ a: 1 })) });
    assert.equal(violationOf(list(64)), undefined);
    rejects(list(65), '$or.64.a', /More than 64 conditions/);
    rejects({ $or: Array.from({ length: 65 }, () => ({})) }, '$or.64', /More than 64 conditions/);
  });

  test('8 levels of $and, $or and $not are allowed, one more is not', () => {
    const nested = (levels: number): object => {
      let condition: object = { a: 1 };
      for (let level = 0; level < levels; level += 1) condition = { $not: condition };
      return condition;
    };
    assert.equal(violationOf(nested(8)), undefined);
    rejects(nested(9), Array.from({ length: 9 }, () => '$not').join('.'), /More than 8 levels/);
    const value = (levels: number): unknown => JSON.parse('['.repeat(levels) + ']'.repeat(levels));
    assert.equal(violationOf({ a: value(8) }), undefined);
    assert.match(violationOf({ a: value(9) })?.reason ?? '', /More than 8 levels/);
  });

  test('16 KiB are allowed, one byte more is not', () => {
    const filler = (length: number): string => 'x'.repeat(length);
    const condition = (length: number): object => ({
      a: { $in: ['ä', filler(4000), filler(4000), filler(4000), filler(4000), filler(length)] },
    });
    const rest = 16_384 - Buffer.byteLength(JSON.stringify(condition(0)));
    assert.equal(violationOf(condition(rest)), undefined);
    rejects(condition(rest + 1), '', /More than 16384 bytes/);
  });

  test('values that no event can equal are rejected', () => {
    rejects({ a: 'x'.repeat(4097) }, 'a', /4097 characters: strings are read up to 4096/);
    const numbers = Array.from({ length: 1001 }, () => 0);
    rejects({ a: numbers }, 'a', /1001 elements: arrays are read up to 1000/);
    assert.equal(violationOf({ a: { $in: numbers } }), undefined);
    rejects(JSON.parse('{"a":{"$gt":1e400}}'), 'a.$gt', /A number too large/);
    rejects(JSON.parse('{"a":[1,-1e400]}'), 'a.1', /A number too large/);
  });

  test('a condition of any size and depth is rejected', () => {
    rejects(JSON.parse(`{"a":${'['.repeat(90_000)}${']'.repeat(90_000)}}`), '', /levels/);
    rejects({ a: { $in: Array.from({ length: 400_000 }, () => 1) } }, '', /bytes/);
    const names = Array.from({ length: 90_000 }, (_, index) => [`a${index}`, 1]);
    rejects(Object.fromEntries(names), '', /bytes/);
  });

  test('a path that is neither words with dots nor a JSON Pointer is rejected, and works where it is stored', () => {
    for (const path of ['#/data/x', 'data/x', 'data[0].x', ' data.x', '@.data.x', '[0]', 'x-a.b']) {
      rejects(
        { $and: [{ [path]: 1 }] },
        `$and.0.${path}`,
        /^No field of an event: .*\/data\/object\/id/,
      );
      const stored = storedFilter(JSON.stringify({ [path]: { $exists: false } }));
      assert.equal(runSync(stored.matches({ data: { x: 1 } })), true);
    }
  });

  test('names of prototypes are no operators', () => {
    rejects(JSON.parse('{"a":{"$eq":1,"__proto__":1}}'), 'a.__proto__', /only operators/);
    assert.equal(fitsText('{"__proto__":{"$exists":false}}', '{}'), true);
  });
});

describe('the evaluation of filters', () => {
  test(
    'a filter decides as a plain evaluator does, with and without pauses',
    { tags: rounds({ few: [], all: ['long'] }) },
    () => {
      let matched = 0;
      let all = 0;
      fc.assert(
        fc.property(
          conditions,
          events,
          fc.integer({ min: 1, max: 60 }),
          (condition, event, units) => {
            const expected = holds(condition, cut(event));
            const filter = filterWithinLimits(condition);
            assert.equal(runSync(filter.matches(event)), expected);
            const fields = new Fields(event);
            let at = filter.start;
            while (at >= 0) at = filter.evaluate(fields, at, { left: units });
            assert.equal(at === matching, expected);
            all += 1;
            if (expected) matched += 1;
          },
        ),
        { numRuns: rounds({ few: 3000, all: 100_000 }) },
      );
      // Otherwise the property would compare little.
      assert.ok(matched > all / 10 && matched < (all * 9) / 10, `${matched} of ${all}`);
    },
  );
});

// A plain evaluator

interface Plain {
  readonly [name: string]: Json;
}

/** Cuts strings and arrays to what is read of them. */
function cut(value: Json): Json {
  if (typeof value === 'string') return value.slice(0, 4096);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.slice(0, 1000).map(cut);
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, cut(field)]));
}

function holds(condition: Plain, event: Json): boolean {
  return Object.entries(condition).every(([name, operand]) => {
    if (name === '$not') return !holds(operand as Plain, event);
    if (name === '$and') return (operand as Plain[]).every((part) => holds(part, event));
    if (name === '$or') return (operand as Plain[]).some((part) => holds(part, event));
    return fieldHolds(find(event, name.split('.')), operand);
  });
}

function find(value: Json, names: readonly string[]): Json | undefined {
  const [name, ...rest] = names;
  if (name === undefined) return value;
  if (typeof value !== 'object' || value === null || (Array.isArray(value) && name === 'length')) {
    return undefined;
  }
  const field = Object.getOwnPropertyDescriptor(value, name)?.value as Json | undefined;
  return field === undefined ? undefined : find(field, rest);
}

function fieldHolds(value: Json | undefined, operand: Json): boolean {
  if (!isOperators(operand)) return equals(value, operand);
  return Object.entries(operand).every(([name, other]) => operatorHolds(name, value, other));
}

function isOperators(operand: Json): operand is Plain {
  if (typeof operand !== 'object' || operand === null || Array.isArray(operand)) return false;
  return Object.keys(operand).some((name) => name.startsWith('$'));
}

function operatorHolds(name: string, value: Json | undefined, operand: Json): boolean {
  if (name === '$not') return !fieldHolds(value, operand);
  if (name === '$ne') return !equals(value, operand);
  if (name === '$nin') return !(operand as Json[]).some((each) => equals(value, each));
  if (name === '$exists') return (value !== undefined) === operand;
  if (value === undefined) return false;
  if (name === '$eq') return equals(value, operand);
  if (name === '$in') return (operand as Json[]).some((each) => equals(value, each));
  if (name === '$contains') {
    if (Array.isArray(value)) return value.some((element) => same(element, operand));
    return typeof value === 'string' && typeof operand === 'string' && value.includes(operand);
  }
  const scalarHolds = (one: Json): boolean => {
    if (typeof one === 'string' && typeof operand === 'string') {
      if (name === '$startsWith') return one.startsWith(operand);
      if (name === '$endsWith') return one.endsWith(operand);
      return inOrder(name, one < operand, one === operand);
    }
    if (typeof one !== 'number' || typeof operand !== 'number') return false;
    return inOrder(name, one < operand, one === operand);
  };
  return scalarHolds(value) || (Array.isArray(value) && value.some(scalarHolds));
}

function inOrder(name: string, isLess: boolean, isEqual: boolean): boolean {
  if (name === '$lt') return isLess;
  if (name === '$lte') return isLess || isEqual;
  return name === '$gte' ? !isLess : !isLess && !isEqual;
}

function equals(value: Json | undefined, operand: Json): boolean {
  if (value === undefined) return false;
  return (
    same(value, operand) || (Array.isArray(value) && value.some((item) => same(item, operand)))
  );
}

function same(one: Json, other: Json): boolean {
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) {
    return one === other;
  }
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  const fields = Object.entries(one);
  return (
    fields.length === Object.keys(other).length &&
    fields.every(([name, field]) => {
      const match = Object.getOwnPropertyDescriptor(other, name)?.value as Json | undefined;
      return match !== undefined && same(field, match);
    })
  );
}

// What is generated

const names = ['a', 'b', '0', '1', '__proto__', 'constructor', 'length'];
const long = 'a'.repeat(4095);
const texts = ['', 'a', 'ab', 'b', '\ud83d', '😀', 'aaab', 'ba'];
const scalars: fc.Arbitrary<Json> = fc.oneof(
  fc.constantFrom<Json>(null, true, false, 0, -0, 1, 1.5, -3, 2 ** 53, 2 ** 53 + 2),
  fc.constantFrom<Json>(...texts),
);
const { value: values } = fc.letrec<{ value: Json; list: Json; object: Json }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    scalars,
    tie('list'),
    tie('object'),
  ),
  list: fc.array(tie('value'), { maxLength: 3 }),
  object: fc.dictionary(fc.constantFrom(...names), tie('value'), {
    maxKeys: 3,
    noNullPrototype: true,
  }),
}));
const cutList = fc
  .constantFrom<Json>(0, 'a')
  .map((last): Json => [...Array.from({ length: 1000 }, () => 7), last]);
const events: fc.Arbitrary<Json> = fc.dictionary(
  fc.constantFrom(...names),
  fc.oneof(
    { arbitrary: values, weight: 20 },
    { arbitrary: cutList, weight: 1 },
    { arbitrary: fc.constantFrom<Json>(`${long}aa`, `${long}ba`), weight: 2 },
  ),
  { maxKeys: 4, noNullPrototype: true },
);
const paths = fc
  .array(fc.constantFrom(...names), { minLength: 1, maxLength: 3 })
  .map((parts) => parts.join('.'));
const lists = fc.array(values, { maxLength: 3 });
const orderable = fc.constantFrom(0, 1, 1.5, -3, 2 ** 53, ...texts, long, `${long}b`);
const operators: fc.Arbitrary<Json> = fc.letrec<{ one: Json }>((tie) => ({
  one: fc.oneof(
    { depthSize: 'small' },
    ...['$eq', '$ne', '$contains'].map((name) => values.map((value): Json => ({ [name]: value }))),
    ...['$in', '$nin'].map((name) => lists.map((list): Json => ({ [name]: list }))),
    ...['$gt', '$gte', '$lt', '$lte'].map((name) =>
      orderable.map((value): Json => ({ [name]: value })),
    ),
    ...['$startsWith', '$endsWith'].map((name) =>
      fc.constantFrom(...texts, `${long}b`).map((text): Json => ({ [name]: text })),
    ),
    fc.boolean().map((value): Json => ({ $exists: value })),
    fc.tuple(tie('one'), tie('one')).map(([one, other]): Json => ({
      ...(one as Plain),
      ...(other as Plain),
    })),
    tie('one').map((one): Json => ({ $not: one })),
  ),
})).one;
const conditions: fc.Arbitrary<Plain> = fc.letrec<{ one: Plain }>((tie) => ({
  one: fc.oneof(
    { depthSize: 'small' },
    fc.tuple(paths, operators).map(([path, operand]): Plain => ({ [path]: operand })),
    fc.tuple(paths, values).map(([path, operand]): Plain => ({ [path]: operand })),
    fc
      .tuple(paths, operators, paths, values)
      .map(([path, operand, other, value]): Plain => ({ [path]: operand, [other]: value })),
    fc.array(tie('one'), { minLength: 1, maxLength: 3 }).map((parts): Plain => ({ $and: parts })),
    fc.array(tie('one'), { minLength: 1, maxLength: 3 }).map((parts): Plain => ({ $or: parts })),
    tie('one').map((part): Plain => ({ $not: part })),
  ),
})).one;

function filterOf(condition: unknown): Filter {
  const parsed = parseFilter(condition);
  if ('violation' in parsed) assert.fail(`${parsed.violation.path}: ${parsed.violation.reason}`);
  return parsed.filter;
}

function filterWithinLimits(condition: unknown): Filter {
  const violation = violationOf(condition);
  fc.pre(violation === undefined || !violation.reason.startsWith('More than'));
  return filterOf(condition);
}

function violationOf(condition: unknown): FilterViolation | undefined {
  const parsed = parseFilter(condition);
  return 'violation' in parsed ? parsed.violation : undefined;
}

function fits(condition: unknown, event: object): boolean {
  return runSync(filterOf(condition).matches(event as Json));
}

function fitsText(condition: string, event: string): boolean {
  return fits(JSON.parse(condition), JSON.parse(event) as object);
}
