import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { Type, type TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { describedOperations } from '../../../src/api/operations.ts';
import { parseQuery } from '../../../src/api/http/query.ts';
import { firstViolation } from '../../../src/api/http/violation.ts';
import { closed } from '../../../src/schemas/schema.ts';
import { streamCreate } from '../../../src/schemas/streams.ts';

const schema = closed({
  name: Type.String({ minLength: 1, maxLength: 3, description: 'The name' }),
  code: Type.Optional(Type.String({ pattern: '^[a-z]+$', description: 'The code' })),
  id: Type.Optional(Type.String({ pattern: '^x', format: 'x-id', description: 'The id' })),
  size: Type.Optional(Type.Integer({ minimum: 1, maximum: 9, description: 'The size' })),
  list: Type.Optional(
    Type.Array(closed({ a: Type.Boolean({ description: 'A flag' }) }), {
      minItems: 1,
      maxItems: 2,
      description: 'The list',
    }),
  ),
  kind: Type.Optional(
    Type.Union([Type.Literal('one'), Type.Literal('two')], { description: 'The kind' }),
  ),
  gone: Type.Optional(Type.Union([Type.String(), Type.Null()], { description: 'The gone' })),
});

describe('firstViolation', () => {
  const rows: [value: unknown, reason: string, property: string, description: string][] = [
    [[], 'Expected type object but found type array', '', 'no description'],
    [null, 'Expected type object but found type null', '', 'no description'],
    [{}, 'Missing required property: name', 'name', 'The name'],
    [{ name: 'a', b: 1 }, 'Additional properties not allowed: b', 'b', 'Unknown member'],
    [{ name: 1 }, 'Expected type string but found type integer', 'name', 'The name'],
    [{ name: 1.5 }, 'Expected type string but found type number', 'name', 'The name'],
    [{ name: '' }, 'String is too short (0 chars), minimum 1', 'name', 'The name'],
    [{ name: 'abcd' }, 'String is too long (4 chars), maximum 3', 'name', 'The name'],
    [{ name: 'a', code: 'A' }, 'String does not match pattern ^[a-z]+$: A', 'code', 'The code'],
    [{ name: 'a', id: 'y' }, "Object didn't pass validation for format x-id: y", 'id', 'The id'],
    [{ name: 'a', size: 0 }, 'Value 0 is less than minimum 1', 'size', 'The size'],
    [{ name: 'a', size: 10 }, 'Value 10 is greater than maximum 9', 'size', 'The size'],
    [{ name: 'a', size: 1.5 }, 'Expected type integer but found type number', 'size', 'The size'],
    [{ name: 'a', list: [] }, 'Array is too short (0), minimum 1', 'list', 'The list'],
    [{ name: 'a', list: [1, 2, 3] }, 'Array is too long (3), maximum 2', 'list', 'The list'],
    [
      { name: 'a', list: [{ a: true }, { a: 1 }] },
      'Expected type boolean but found type integer',
      'list.1.a',
      'A flag',
    ],
    [
      { name: 'a', kind: 'three' },
      'No enum match for: three; allowed: one, two',
      'kind',
      'The kind',
    ],
    [{ name: 'a', kind: 3 }, 'Expected type string but found type integer', 'kind', 'The kind'],
    [
      { name: 'a', gone: {} },
      'Expected type string,null but found type object',
      'gone',
      'The gone',
    ],
    [
      JSON.parse('{"name": "a", "__proto__": 1}'),
      'Additional properties not allowed: __proto__',
      '__proto__',
      'Unknown member',
    ],
    [
      { name: 'a', constructor: 1 },
      'Additional properties not allowed: constructor',
      'constructor',
      'Unknown member',
    ],
  ];
  for (const [value, reason, property, description] of rows) {
    test(`firstViolation explains ${JSON.stringify(value)}: ${reason}`, () => {
      assert.deepEqual(firstViolation(schema, value), { reason, property, description });
    });
  }

  test('shortens quoted values', () => {
    const violation = firstViolation(schema, { name: 'a', code: 'A'.repeat(100_000) });
    assert.ok((violation?.reason.length ?? 0) < 200);
  });

  test('firstViolation explains a union by the field that distinguishes its objects', () => {
    const bearer = { method: 'bearer', token: 't', username: 'u' };
    const of = (authorization: unknown): unknown => {
      const webhook = { webhook_endpoint: 'https://a', webhook_authorization: authorization };
      return { destination: { type: 'webhook', configuration: webhook } };
    };
    const at = 'destination.configuration.webhook_authorization';
    const propertyAndReason = (authorization: unknown): unknown[] => {
      const violation = firstViolation(streamCreate, of(authorization));
      return [violation?.property, violation?.reason];
    };
    assert.deepEqual(propertyAndReason(bearer), [
      `${at}.username`,
      'Additional properties not allowed: username',
    ]);
    assert.deepEqual(propertyAndReason({ method: 'digest' }), [
      `${at}.method`,
      'No enum match for: digest; allowed: basic, bearer, custom_header, oauth2_client_credentials',
    ]);
    assert.deepEqual(propertyAndReason({}), [`${at}.method`, 'Missing required property: method']);
    assert.deepEqual(propertyAndReason({ method: 'bearer' }), [
      `${at}.token`,
      'Missing required property: token',
    ]);
  });
});

describe('a rejected value', () => {
  const schemas = describedOperations().flatMap(({ operationId, body, query, params }) =>
    Object.entries({ body: body?.schema, query, params, ...body?.mediaTypes })
      .filter((entry): entry is [string, TSchema] => entry[1] !== undefined)
      .map(([part, of]) => ({ name: `${operationId} ${part}`, of })),
  );
  for (const { name, of } of schemas) {
    test(`firstViolation explains every rejected value, and no valid one: ${name}`, () => {
      const validator = Compile(of);
      const fields = Object.keys((of as { properties?: object }).properties ?? {});
      const values = fc.oneof(
        fc.jsonValue(),
        fc.dictionary(fc.constantFrom('__proto__', 'x', ...fields), fc.jsonValue(), {
          maxKeys: 4,
        }),
      );
      fc.assert(
        fc.property(values, (value) => {
          assert.equal(firstViolation(of, value) === undefined, validator.Check(value));
        }),
        { numRuns: 200 },
      );
    });
  }
});

describe('parseQuery', () => {
  const query = closed({
    take: Type.Optional(Type.Integer()),
    all: Type.Optional(Type.Boolean()),
    text: Type.Optional(Type.String()),
    list: Type.Optional(Type.Array(Type.String())),
    numbers: Type.Optional(Type.Array(Type.Integer())),
  });
  const rows: [text: string, value: object][] = [
    ['', {}],
    ['take=5&all=true&text=a+b%20c', { take: 5, all: true, text: 'a b c' }],
    ['list=a&list=b', { list: ['a', 'b'] }],
    ['list=a', { list: ['a'] }],
    ['numbers=1&numbers=x', { numbers: [1, 'x'] }],
    ['take=1&take=2', { take: [1, 2] }],
    ['text=a&text=b&text=c', { text: ['a', 'b', 'c'] }],
    ['take=', { take: '' }],
    ['take=05', { take: '05' }],
    ['take=1e2', { take: '1e2' }],
    ['take=0x10', { take: '0x10' }],
    ['take=-0', { take: -0 }],
    ['take=99999999999999999999', { take: '99999999999999999999' }],
    ['take=٥', { take: '٥' }],
    ['all=TRUE', { all: 'TRUE' }],
    ['text=%ZZ&take=%', { text: '%ZZ', take: '%' }],
    ['text=%FF', { text: '\uFFFD' }],
    ['text', { text: '' }],
    ['&&text=1', { text: '1' }],
  ];
  for (const [text, value] of rows) {
    test(`parses ${JSON.stringify(text)}`, () => {
      assert.deepEqual(parseQuery(query, text), value);
    });
  }

  for (const name of ['x', '__proto__', 'toString', '']) {
    test(`throws for the parameter ${JSON.stringify(name)}, which the schema does not have`, () => {
      assert.throws(() => parseQuery(query, `take=5&${name}=secret`), {
        status: 400,
        errorCode: 'invalid_query_string',
        message: `Query validation error: 'Unknown query parameter: ${name}' on property ${name} (the operation has ${Object.keys(query.properties).join(', ')}).`,
      });
    });
  }
});
