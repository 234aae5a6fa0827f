import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { apiCreate, apiPatch, api } from '../../src/schemas/apis.ts';
import { carriedNames } from '../../src/schemas/carried-fields.ts';
import { clientCreate, clientPatch, clientWithSecret } from '../../src/schemas/clients.ts';
import { grantCreate, grantPatch, grant } from '../../src/schemas/grants.ts';
import { roleCreate, rolePatch, role } from '../../src/schemas/roles.ts';

/**
 * The fields of clients, APIs, client grants and roles against the type declarations of the installed npm
 * package `auth0`: a new version of it shows which fields are new.
 */

const declarations = await readFile(
  fileURLToPath(new URL('management/api/requests/requests.d.mts', import.meta.resolve('auth0'))),
  'utf8',
);

/** Returns the names of the fields of an interface of the package. */
function declared(name: string): string[] {
  const start = declarations.indexOf(`export interface ${name} {`);
  assert.ok(start !== -1, `${name} is not declared`);
  const body = declarations.slice(start, declarations.indexOf('\n}', start));
  return [...body.matchAll(/^ {4}(?<field>\w+)\??:/gm)].map(
    (match) => match.groups?.['field'] ?? '',
  );
}

const fieldsOf = (schema: { readonly properties: object }): string[] =>
  Object.keys(schema.properties);

/** Fields that Leat has and the package does not. */
const own: Readonly<Record<string, readonly string[]>> = {
  Client: ['client_id', 'issuer', 'global', 'jwks'],
};

const resources = [
  ['Client', clientCreate, clientPatch, clientWithSecret, carriedNames.client],
  ['ResourceServer', apiCreate, apiPatch, api, carriedNames.api],
  ['ClientGrant', grantCreate, grantPatch, grant, carriedNames.grant],
  ['Role', roleCreate, rolePatch, role, carriedNames.role],
] as const;

describe('fields of the package', () => {
  for (const [name, create, patch, shown, names] of resources) {
    const operations = [
      ['Create', create, names.create],
      ['Update', patch, names.patch],
    ] as const;
    for (const [verb, schema, carriedByVerb] of operations) {
      const type = `${verb}${name}RequestContent`;
      test(`every field of ${type} is known to Leat: used, carried or refused`, () => {
        const extensions = own[name] ?? [];
        const fields = fieldsOf(schema).filter((field) => !extensions.includes(field));
        assert.deepEqual(fields.toSorted(), declared(type).toSorted());
      });

      test(`every carried field of ${type} is one, listed once, and is returned`, () => {
        const list: readonly string[] = carriedByVerb;
        assert.equal(new Set(list).size, list.length);
        const all = declared(type);
        assert.deepEqual(
          list.filter((field) => !all.includes(field)),
          [],
        );
        const returned = fieldsOf(shown);
        assert.deepEqual(
          list.filter((field) => !returned.includes(field)),
          [],
        );
      });
    }
  }

  test('the documentation lists every carried field', async () => {
    const docs = await readFile(new URL('../../docs/clients.md', import.meta.url), 'utf8');
    const section = /^### Carried fields\n(?<text>.*?)(?=^##|(?![^]))/ms.exec(docs)?.groups?.[
      'text'
    ];
    for (const { create, patch } of Object.values(carriedNames)) {
      for (const field of [...create, ...patch]) {
        assert.ok(section?.includes(`\`${field}\``), field);
      }
    }
  });
});
