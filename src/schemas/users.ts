import { Type, type Static, type TNull, type TString, type TUnion } from 'typebox';
import { fieldsQuery } from './fields.ts';
import { barePageOr, numberedPageQuery, totals } from './numbered-page.ts';
import { accepted, closed, component, next, pageQuery, time, unsupported } from './schema.ts';
import { printable, printableWithoutOuterBlanks, webReference } from './text-patterns.ts';

/** The handler checks the format, and names it `format email` in its error. */
const email = Type.String({ examples: ['ada@example.com'], description: "The user's e-mail" });

const text = (lengthMax: number, description: string): TString =>
  Type.String({ minLength: 1, maxLength: lengthMax, description });

/** As stored; one that is sent has no blank at its ends. */
const username = Type.String({
  minLength: 1,
  maxLength: 128,
  pattern: printable,
  examples: ['ada'],
  description: "The user's user name",
});
const usernameSent = Type.String({
  minLength: 1,
  maxLength: 128,
  pattern: printableWithoutOuterBlanks,
  examples: ['ada'],
  description: "The user's user name: printable characters, no blank at its ends",
});

const phone = Type.String({
  pattern: '^\\+[0-9]{1,15}$',
  format: 'phone-number',
  examples: ['+441632960123'],
  description: "The user's phone number: + and 1 to 15 digits",
});

/** Only http and https URLs or file names: `javascript:` or `data:` could attack a page that shows it. */
const picture = Type.String({
  minLength: 1,
  maxLength: 2048,
  pattern: webReference,
  format: 'picture',
  examples: ['https://example.com/ada.png'],
  description: "The user's picture: a URL or a file name",
});

const userMetadata = Type.Record(Type.String(), Type.Unknown(), {
  description: 'What the user may change',
});
const appMetadata = Type.Record(Type.String(), Type.Unknown(), {
  description: 'What the user may not change',
});

const connection = Type.String({ description: "Name of the user's connection" });

/** The part of the user id after the provider. */
const localId = Type.String({
  minLength: 1,
  maxLength: 255,
  pattern: '^[\\x21-\\x7E]*$',
  format: 'user-id',
  examples: ['65e1a0b2c3d4e5f60718293a'],
  description: 'Id of the user without its provider, without spaces',
});

/** Fields that a PATCH can remove. */
const removable = {
  name: text(300, "The user's full name"),
  nickname: text(300, "The user's nickname"),
  picture,
  given_name: text(150, "The user's given name"),
  family_name: text(150, "The user's family name"),
  phone_number: phone,
};

/** Fields that a PATCH can change but not remove. */
const permanent = {
  email_verified: Type.Boolean({ description: 'Whether the e-mail is verified' }),
  username,
  phone_verified: Type.Boolean({ description: 'Whether the phone number is verified' }),
  blocked: Type.Boolean({ description: 'Whether the user is blocked' }),
  user_metadata: userMetadata,
  app_metadata: appMetadata,
};

const profile = Type.Partial(closed({ ...removable, ...permanent })).properties;

const verifyEmail = Type.Boolean({ description: 'Accepted, without effect' });

const password = Type.String({ writeOnly: true, description: "The user's password" });

/** Body of a create. */
export const userCreate = component('UserCreate', 'A new user', {
  email,
  password,
  connection,
  user_id: Type.Optional(localId),
  ...profile,
  username: Type.Optional(usernameSent),
  verify_email: Type.Optional(verifyEmail),
});

/** Body of an update: any subset. */
export const userPatch = component(
  'UserPatch',
  'Changes of a user; metadata merges at its first level',
  {
    ...profile,
    username: Type.Optional(usernameSent),
    email: Type.Optional(email),
    password: Type.Optional(password),
    connection: Type.Optional(connection),
    name: Type.Optional(nullable(removable.name)),
    nickname: Type.Optional(nullable(removable.nickname)),
    picture: Type.Optional(nullable(removable.picture)),
    given_name: Type.Optional(nullable(removable.given_name)),
    family_name: Type.Optional(nullable(removable.family_name)),
    phone_number: Type.Optional(nullable(removable.phone_number)),
    verify_email: Type.Optional(verifyEmail),
  },
);

const identity = closed(
  {
    connection,
    user_id: Type.String({ description: 'Id of the user without its provider' }),
    provider: Type.String({ description: 'Provider of the user' }),
    isSocial: Type.Boolean({ description: 'False for a database connection' }),
  },
  { description: 'Where the user comes from' },
);

/** A user in responses and events. */
export const user = component('User', 'A user', {
  user_id: Type.String({ description: 'Provider, | and id' }),
  email,
  ...profile,
  created_at: time,
  updated_at: time,
  identities: Type.Array(identity, { description: 'Always one' }),
});

/** Path of one user. */
export const userParams = closed({
  id: Type.String({ description: 'Id of the user, percent-encoded' }),
});

/** Fields that the list can be sorted by. */
const sortable = [
  'user_id',
  'email',
  'email_verified',
  'username',
  'name',
  'nickname',
  'given_name',
  'family_name',
  'picture',
  'phone_number',
  'phone_verified',
  'blocked',
  'created_at',
  'updated_at',
];

/** Query of the list. */
export const usersQuery = closed({
  ...numberedPageQuery,
  ...pageQuery,
  ...fieldsQuery,
  sort: Type.Optional(
    Type.String({
      pattern: `^(?:${sortable.join('|')}):(?:1|-1)$`,
      description:
        'field:1 or field:-1. Tenants with more than 5,000 users, or 4 MiB of profiles, are sorted by created_at, updated_at, email, user_id or username only.',
    }),
  ),
  connection: Type.Optional(
    Type.String({ description: 'Only users of this connection; Leat has one' }),
  ),
  search_engine: accepted('Leat does not search users'),
  primary_order: accepted('sort alone decides the order'),
  q: unsupported('Leat does not search users, see GET /users-by-email'),
});

/** Responses of the list. */
export const users = Type.Union([
  barePageOr(user, { ...totals, users: Type.Array(user) }),
  closed({ users: Type.Array(user), next }),
]);

/** Query of the users with an e-mail. */
export const usersByEmailQuery = closed({ email, ...fieldsQuery });

/** The users with an e-mail. */
export const usersByEmail = Type.Array(user);

export type UserCreate = Static<typeof userCreate>;
export type UserPatchSent = Static<typeof userPatch>;
export type UsersQuery = Static<typeof usersQuery>;
export type UserShown = Static<typeof user>;

/** Returns a schema that also allows null, which removes the field. */
function nullable(schema: TString & { readonly description?: unknown }): TUnion<[TString, TNull]> {
  return Type.Union([schema, Type.Null()], { description: String(schema.description) });
}
