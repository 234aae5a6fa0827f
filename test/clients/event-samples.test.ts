import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Management } from 'auth0';
import { type Static, type TSchema, Type } from 'typebox';
import { catalogue } from '../../src/core/catalogue.ts';
import { sampleData } from '../../src/core/samples.ts';
import { closed, compile, time } from '../../src/schemas/schema.ts';

/**
 * The data of test events against the catalogue of events that the npm package `auth0` declares. The
 * shapes are written here because the package has types only; the types check the shapes.
 */

const id = Type.String({ minLength: 1 });
const ids = closed({ id });
const named = closed({ id, name: id });
const group = closed({ id, type: Type.Literal('tenant') });
const member = closed({ member_type: Type.Literal('user'), id });
const user = closed({ user_id: id });

const fullUser = {
  user_id: id,
  email: id,
  email_verified: Type.Boolean(),
  username: id,
  phone_number: id,
  phone_verified: Type.Boolean(),
  name: id,
  nickname: id,
  given_name: id,
  family_name: id,
  picture: id,
  blocked: Type.Boolean(),
  user_metadata: Type.Record(Type.String(), Type.Unknown()),
  app_metadata: Type.Record(Type.String(), Type.Unknown()),
  identities: Type.Array(
    closed({ connection: id, user_id: id, provider: id, isSocial: Type.Literal(false) }),
    { minItems: 1 },
  ),
  created_at: time,
  updated_at: time,
};
const fullGroup = { id, name: id, type: Type.Literal('tenant'), created_at: time };
const fullConnection = closed({ id, name: id, strategy: Type.Literal('oidc') });
const organization = closed({ id, name: id, display_name: id });

const shapes = {
  'user.created': closed(fullUser),
  'user.updated': closed(fullUser),
  'user.deleted': closed({ ...fullUser, deleted_at: time }),
  'organization.created': organization,
  'organization.updated': organization,
  'organization.deleted': organization,
  'organization.connection.added': closed({ organization: ids, connection: ids }),
  'organization.connection.updated': closed({ organization: ids, connection: ids }),
  'organization.connection.removed': closed({ organization: ids, connection: ids }),
  'organization.member.added': closed({ organization: ids, user }),
  'organization.member.deleted': closed({ organization: ids, user }),
  'organization.member.role.assigned': closed({ organization: ids, user, role: named }),
  'organization.member.role.deleted': closed({ organization: ids, user, role: named }),
  'organization.group.role.assigned': closed({
    organization: ids,
    group,
    role: named,
    created_at: time,
  }),
  'organization.group.role.deleted': closed({
    organization: ids,
    group,
    role: ids,
    deleted_at: time,
  }),
  'group.created': closed(fullGroup),
  'group.updated': closed({ ...fullGroup, updated_at: time }),
  'group.deleted': closed({ ...fullGroup, updated_at: time }),
  'group.member.added': closed({ group, member }),
  'group.member.deleted': closed({ group, member }),
  'group.role.assigned': closed({ group, role: named, created_at: time }),
  'group.role.deleted': closed({ group, role: ids, deleted_at: time }),
  'connection.created': fullConnection,
  'connection.updated': fullConnection,
  'connection.deleted': fullConnection,
} satisfies Record<Management.EventStreamDeliveryEventTypeEnum, TSchema>;

type Shapes = typeof shapes;
type DeclaredEvent = Extract<
  Management.EventStreamSubscribeEventsResponseContent,
  { readonly event: object }
>;
/** What the package declares for the data of each type. */
type Declared<T> = Extract<DeclaredEvent, { readonly type: T }>['event']['data']['object'];

/** The provider of an identity is the name of the service, which no list of the package has. */
type WithoutProvider<T> = T extends { identities: unknown } ? Omit<T, 'identities'> : T;

type FieldsOf<D> = D extends unknown ? keyof D : never;
type FieldOf<D, K> = D extends unknown ? (K extends keyof D ? NonNullable<D[K]> : never) : never;
/** The names of the fields of a shape that the declaration does not have, at any depth. */
type Undeclared<S, D> = S extends readonly unknown[]
  ? never
  : S extends object
    ? {
        [K in keyof S & string]: K extends FieldsOf<D> ? Undeclared<S[K], FieldOf<D, K>> : K;
      }[keyof S & string]
    : never;

/** The types whose shape does not fit what the package declares. */
type Wrong = {
  [T in keyof Shapes]: WithoutProvider<Static<Shapes[T]>> extends WithoutProvider<Declared<T>>
    ? [Undeclared<Static<Shapes[T]>, Declared<T>>] extends [never]
      ? never
      : T
    : T;
}[keyof Shapes];

/** Does not compile unless every shape fits. */
const wrong: [Wrong] extends [never] ? readonly string[] : never = [];

describe('test events', () => {
  const facts = { now: 1_772_357_400_000, service: 'leat', issuer: 'https://leat.example.com/' };

  test('the catalogue has the types that the package declares', () => {
    assert.deepEqual(catalogue.toSorted(), Object.keys(shapes).toSorted());
    assert.deepEqual(wrong, []);
  });

  for (const [type, shape] of Object.entries(shapes)) {
    test(`the sample of ${type} has the declared shape`, () => {
      const { object } = sampleData(type, facts);
      assert.ok(compile(shape)(object), JSON.stringify(object));
    });
  }
});
