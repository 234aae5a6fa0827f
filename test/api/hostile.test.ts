import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { TSchema } from 'typebox';
import { describedOperations } from '../../src/api/operations.ts';
import type { Operation } from '../../src/api/operation.ts';
import { firstViolation, type Schema } from '../../src/api/http/violation.ts';
import { openPull } from '../helpers/pull.ts';
import { openApiFixture, type ApiResponse, type ApiFixture } from './fixture.ts';

let fixture: ApiFixture;

before(async () => {
  fixture = await openApiFixture();
});
after(() => fixture.close());

const operations = describedOperations();
const known: Readonly<Record<string, string>> = {
  id: 'est_AAAAAAAAAAAAAAAAAAAAAA',
  event_id: 'evt_AAAAAAAAAAAAAAAAAAAAAA',
};

function pathOf(operation: Operation, values: Readonly<Record<string, string>> = known): string {
  return operation.path.replaceAll(/:([a-z_]+)/g, (_all, name: string) => values[name] ?? 'x');
}

/** Asserts a 4xx response with the usual error body. */
function assertRejected(response: ApiResponse, what: string): void {
  const { status, body, text } = response;
  assert.ok(status >= 400 && status < 500, `${what}: ${status} ${text}`);
  assert.equal(body?.statusCode, status, what);
  assert.equal(typeof body.error, 'string', what);
  assert.equal(typeof body.message, 'string', what);
  assert.ok(text.length < 2000, `${what}: ${text.length} characters`);
}

function assertNot5xx(response: ApiResponse, what: string): void {
  assert.ok(response.status < 500, `${what}: ${response.status} ${response.text}`);
}

/** A response of server-sent events does not end: it is closed after its status. */
async function assertNoError(operation: Operation, path: string, body?: string): Promise<void> {
  if (operation.responseType !== 'text/event-stream') {
    return assertNot5xx(await fixture.send(operation.method, path, body), path.slice(0, 100));
  }
  const pull = await openPull(`http://127.0.0.1:${fixture.port}/api/v2${path}`, fixture.token);
  pull.close();
  await pull.ended;
  assert.ok(pull.status < 500, `${path.slice(0, 100)}: ${pull.status} ${pull.text()}`);
}

const deepObject = `${'{"a":'.repeat(5000)}1${'}'.repeat(5000)}`;
const notJson = ['{', '[', '"', '{"a"}', 'undefined', 'NaN', '{}{}', '\u0000', deepObject, '[1,]'];
const notObjects = ['1', '"x"', 'true', '[1]', '[[]]', '[null]'];
const anything: readonly unknown[] = [
  null,
  true,
  -1,
  1.5,
  1e308,
  '',
  'x',
  'x'.repeat(100_000),
  '\u0000\u0007\u001b[31m',
  '../../etc/passwd',
  "'; drop table events; --",
  '\u202e<script>',
  [],
  [[]],
  [null],
  {},
  { $ne: null },
  { toString: 1, valueOf: 1, constructor: 1 },
];

describe('a hostile body', () => {
  for (const operation of operations.filter(({ body }) => body !== undefined)) {
    const name = `${operation.method} ${operation.path}`;

    test(`${name} rejects a body that does not match its schema`, async () => {
      for (const text of [...notJson, ...notObjects]) {
        const response = await fixture.send(operation.method, pathOf(operation), text);
        assertRejected(response, text.slice(0, 20));
      }
    });

    test(`${name} rejects a body of another media type, and one that is too large`, async () => {
      const path = pathOf(operation);
      const type = { 'content-type': 'text/html' };
      const other = await fixture.send(operation.method, path, '{}', type);
      assert.equal(other.status, 415);
      const large = await fixture.send(operation.method, path, `"${'x'.repeat(4 * 1_048_576)}"`);
      assert.equal(large.status, 413);
      assertRejected(large, 'large');
    });

    test(`${name}: no value of any field is a 500`, async () => {
      for (const field of fieldsOf(operation.body?.schema)) {
        for (const value of anything) {
          const body = { [field]: value };
          assertNot5xx(
            await fixture.send(operation.method, pathOf(operation), body),
            `${field}: ${JSON.stringify(value).slice(0, 50)}`,
          );
        }
      }
      assert.deepEqual(fixture.logged, []);
    });

    test(`${name} rejects a repeated field, unless it publishes events`, async () => {
      if (operation.body?.unparsed === true) return;
      const text = '{"twice":1,"twice":2}';
      const response = await fixture.send(operation.method, pathOf(operation), text);
      assert.match(response.body.message, /'Repeated property' on property twice /);
    });

    test(`${name} rejects fields such as __proto__ and constructor`, async () => {
      for (const field of ['__proto__', 'constructor', 'prototype', 'hasOwnProperty', 'x']) {
        const text = `{"${field}":{"destination":1}}`;
        assertRejected(await fixture.send(operation.method, pathOf(operation), text), field);
      }
    });
  }
});

describe('a name with blanks at its ends', () => {
  /** The name of a user is no key: it may be anybody's, and comes from elsewhere. */
  const isFree = (path: string, field: string): boolean =>
    path.startsWith('/users') && field === 'name';

  for (const { method, path, body } of operations) {
    const { properties = {} }: Schema = body?.schema ?? {};
    for (const [field, schema] of Object.entries(properties)) {
      if (!['name', 'username'].includes(field) || isFree(path, field)) continue;

      test(`${method} ${path} refuses blanks at the ends of ${field}`, () => {
        for (const text of [' crm', 'crm ', '\u00a0crm', 'crm\u3000', ' ']) {
          const violation = firstViolation(schema, text);
          assert.match(violation?.description ?? '', /no blank at its ends$/, text);
        }
        assert.equal(firstViolation(schema, 'c r m'), undefined);
        assert.match(firstViolation(schema, '')?.reason ?? '', /too short/);
      });
    }
  }
});

describe('a hostile query or path', () => {
  for (const operation of operations) {
    const name = `${operation.method} ${operation.path}`;

    test(`${name}: no query and no path parameter is a 500`, async () => {
      const body = operation.body === undefined ? undefined : '{';
      for (const field of ['x', '__proto__', ...fieldsOf(operation.query)]) {
        for (const value of [
          '',
          '-1',
          '1e999',
          'a'.repeat(5000),
          '%00',
          '%ff%fe',
          '%',
          '[]',
          '{}',
        ]) {
          const path = `${pathOf(operation)}?${field}=${value}&${field}[a]=1`;
          await assertNoError(operation, path, body);
        }
      }
      for (const value of ['%00', '%ff', '..%2f..', '%F0%9F%98%80', "'", 'a'.repeat(3000)]) {
        const values = { id: value, event_id: value, client_id: value };
        await assertNoError(operation, pathOf(operation, values), body);
      }
      assert.deepEqual(fixture.logged, []);
    });

    test(`${name}: 401 comes before the checks of path, query and body`, async () => {
      const path = `/api/v2${pathOf(operation)}?take=x`;
      const text = operation.method === 'GET' ? undefined : '{';
      const response = await fixture.raw(operation.method, path, text, { 'content-type': 'a/b' });
      assert.equal(response.status, 401);
      assertRejected(response, name);
      assert.ok(response.headers.has('www-authenticate'));
    });
  }
});

/** Returns the names of the fields of a schema, of all its branches. */
function fieldsOf(schema: TSchema | Schema | undefined): string[] {
  const { properties = {}, anyOf = [], items }: Schema = schema ?? {};
  const names = [...Object.keys(properties), ...anyOf.flatMap((branch) => fieldsOf(branch))];
  return [...new Set(items === undefined ? names : [...names, ...fieldsOf(items)])];
}

describe('a body of very many parts', () => {
  const create = (metadata: string): Promise<ApiResponse> =>
    fixture.send(
      'POST',
      '/users',
      `{"connection":"Username-Password-Authentication","email":"many@example.com","password":"Quiet-River-42","user_metadata":${metadata}}`,
    );

  test('more than 20,000 arrays and objects are rejected before parsing', async () => {
    for (const part of ['[]', '{}', '{"a":1}']) {
      const response = await create(`{"x":[${Array(20_000).fill(part).join(',')}]}`);
      assert.equal(response.status, 400, response.text);
      assert.equal(
        response.body.message,
        "Payload validation error: 'More than 20000 arrays, objects and members of objects' on property body (The request body).",
      );
    }
  });

  test('any number of numbers and texts is accepted', async () => {
    const response = await create(
      `{"x":[${Array(200_000).fill('1').join(',')}],"y":"${'{'.repeat(50_000)}"}`,
    );
    assert.equal(response.status, 201, response.text);
  });
});
