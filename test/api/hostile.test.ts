import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { TSchema } from 'typebox';
import { describedOperations } from '../../src/api/operations.ts';
import type { Operation } from '../../src/api/operation.ts';
import type { Schema } from '../../src/api/http/violation.ts';
import { openPull } from '../helpers/pull.ts';
import { openApiFixture, type ApiResponse, type ApiFixture } from './fixture.ts';

let site: ApiFixture;

before(async () => {
  site = await openApiFixture();
});
after(() => site.close());

const operations = describedOperations();
const known: Readonly<Record<string, string>> = {
  id: 'est_AAAAAAAAAAAAAAAAAAAAAA',
  event_id: 'evt_AAAAAAAAAAAAAAAAAAAAAA',
};

function pathOf(operation: Operation, values: Readonly<Record<string, string>> = known): string {
  return operation.path.replaceAll(/:([a-z_]+)/g, (_all, name: string) => values[name] ?? 'x');
}

/** A refusal of ours, whatever was sent: its shape is right and it is nobody's bug. */
function assertRefused(answer: ApiResponse, what: string): void {
  const { status, body, text } = answer;
  assert.ok(status >= 400 && status < 500, `${what}: ${status} ${text}`);
  assert.equal(body?.statusCode, status, what);
  assert.equal(typeof body.error, 'string', what);
  assert.equal(typeof body.message, 'string', what);
  assert.ok(text.length < 2000, `${what}: ${text.length} characters`);
}

function assertNoBug(answer: ApiResponse, what: string): void {
  assert.ok(answer.status < 500, `${what}: ${answer.status} ${answer.text}`);
}

/** A pull that is not refused does not end by itself: it is cut off once its status is there. */
async function assertNoHarm(operation: Operation, path: string, body?: string): Promise<void> {
  if (operation.operationId !== 'pullEvents') {
    return assertNoBug(await site.send(operation.method, path, body), path.slice(0, 100));
  }
  const pull = await openPull(`http://127.0.0.1:${site.port}/api/v2${path}`, site.token);
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

    test(`is refused by ${name} when it is not what is asked for`, async () => {
      for (const text of [...notJson, ...notObjects]) {
        const answer = await site.send(operation.method, pathOf(operation), text);
        assertRefused(answer, text.slice(0, 20));
      }
    });

    test(`is refused by ${name} when it is of another type or too large`, async () => {
      const path = pathOf(operation);
      const type = { 'content-type': 'text/html' };
      const other = await site.send(operation.method, path, '{}', type);
      assert.equal(other.status, 415);
      const large = await site.send(operation.method, path, `"${'x'.repeat(4 * 1_048_576)}"`);
      assert.equal(large.status, 413);
      assertRefused(large, 'large');
    });

    test(`cannot harm ${name} by any value of any member`, async () => {
      for (const member of membersOf(operation.body?.schema)) {
        for (const value of anything) {
          const body = { [member]: value };
          assertNoBug(
            await site.send(operation.method, pathOf(operation), body),
            `${member}: ${JSON.stringify(value).slice(0, 50)}`,
          );
        }
      }
      assert.deepEqual(site.logged, []);
    });

    test(`cannot smuggle members into ${name} by names that objects have`, async () => {
      for (const member of ['__proto__', 'constructor', 'prototype', 'hasOwnProperty', 'x']) {
        const text = `{"${member}":{"destination":1}}`;
        assertRefused(await site.send(operation.method, pathOf(operation), text), member);
      }
    });
  }
});

describe('a hostile query or path', () => {
  for (const operation of operations) {
    const name = `${operation.method} ${operation.path}`;

    test(`does no harm to ${name}`, async () => {
      const body = operation.body === undefined ? undefined : '{';
      for (const member of ['x', '__proto__', ...membersOf(operation.query)]) {
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
          const path = `${pathOf(operation)}?${member}=${value}&${member}[a]=1`;
          await assertNoHarm(operation, path, body);
        }
      }
      for (const value of ['%00', '%ff', '..%2f..', '%F0%9F%98%80', "'", 'a'.repeat(3000)]) {
        const values = { id: value, event_id: value, client_id: value };
        await assertNoHarm(operation, pathOf(operation, values), body);
      }
      assert.deepEqual(site.logged, []);
    });

    test(`of a stranger is refused by ${name} before anything else`, async () => {
      const path = `/api/v2${pathOf(operation)}?take=x`;
      const text = operation.method === 'GET' ? undefined : '{';
      const answer = await site.raw(operation.method, path, text, { 'content-type': 'a/b' });
      assert.equal(answer.status, 401);
      assertRefused(answer, name);
      assert.ok(answer.headers.has('www-authenticate'));
    });
  }
});

/** Names of the members of a schema, of every form it has. */
function membersOf(schema: TSchema | Schema | undefined): string[] {
  const { properties = {}, anyOf = [], items }: Schema = schema ?? {};
  const names = [...Object.keys(properties), ...anyOf.flatMap((branch) => membersOf(branch))];
  return [...new Set(items === undefined ? names : [...names, ...membersOf(items)])];
}

describe('a body of very many parts', () => {
  const create = (metadata: string): Promise<ApiResponse> =>
    site.send(
      'POST',
      '/users',
      `{"connection":"Username-Password-Authentication","email":"many@example.com","password":"Quiet-River-42","user_metadata":${metadata}}`,
    );

  test('is refused before it is parsed', async () => {
    for (const part of ['[]', '{}', '{"a":1}']) {
      const answer = await create(`{"x":[${Array(20_000).fill(part).join(',')}]}`);
      assert.equal(answer.status, 400, answer.text);
      assert.equal(
        answer.body.message,
        "Payload validation error: 'More than 20000 arrays, objects and members of objects' on property body (The request body).",
      );
    }
  });

  test('may have any number of numbers and texts', async () => {
    const answer = await create(
      `{"x":[${Array(200_000).fill('1').join(',')}],"y":"${'{'.repeat(50_000)}"}`,
    );
    assert.equal(answer.status, 201, answer.text);
  });
});
