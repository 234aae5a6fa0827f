import type { Millis, RandomBytes } from './clock.ts';
import { formatTime } from './date.ts';
import { makeBodyFromText } from './envelope.ts';
import { membersOf } from './json-parts.ts';
import { atOnce, type Slices } from './slices.ts';
import type { NewEvent, Tenant, User } from './types.ts';

/** The one database connection; it exists from the start. */
export const databaseConnection = 'Username-Password-Authentication';

/**
 * Characters of a user's profile as JSON. A create is bounded by its body; this bounds what many
 * changes can make of metadata, and with it the events that carry it.
 */
export const profileLengthMax = 1_048_576;

/** Arrays, objects and members of objects in it: parsing and writing that many takes some 20 ms. */
export const profilePartsMax = 20_000;

/**
 * Members of the user object that a client sets, by their wire names, besides e-mail, username and
 * password. `null` removes one.
 */
export type ProfilePatch = Readonly<Record<string, unknown>>;

/** What a user is made from. */
export interface NewUser {
  readonly tenant: number;
  /** LEAT_SERVICE_NAME. */
  readonly provider: string;
  /** The user id without its provider. */
  readonly localId: string;
  readonly email: string;
  readonly username: string | undefined;
  readonly passwordHash: string;
  readonly profile: ProfilePatch;
  /** With its slash; the default picture lies under it. */
  readonly issuer: string;
  readonly now: Millis;
}

/** The user as a create makes it: defaults filled in, the e-mail in lower case. */
export function newUser(sent: NewUser): User {
  const { tenant, provider, localId, username, passwordHash, issuer, now } = sent;
  const email = sent.email.toLowerCase();
  const defaults = {
    email_verified: false,
    name: email,
    nickname: email.slice(0, email.indexOf('@')),
    picture: `${issuer}avatar.svg`,
  };
  return {
    tenant,
    id: `${provider}|${localId}`,
    connection: databaseConnection,
    email,
    username,
    passwordHash,
    profileJson: atOnce(patchProfile(JSON.stringify(defaults), sent.profile)),
    createdAt: now,
    updatedAt: now,
  };
}

/** A new user id without its provider: 24 hexadecimal digits, of which the first 8 are the time. */
export function makeLocalId(now: Millis, random: RandomBytes): string {
  const seconds = Math.floor(now / 1000) % 2 ** 32;
  return seconds.toString(16).padStart(8, '0') + random(8).toHex();
}

/** What a PATCH asks of a user; absent members stay as they are. */
export interface UserPatch {
  readonly email?: string | undefined;
  readonly username?: string | undefined;
  readonly passwordHash?: string | undefined;
  readonly profile: ProfilePatch;
}

/** The user as a PATCH makes it. */
export function* applyUserPatch(before: User, patch: UserPatch, now: Millis): Slices<User> {
  return {
    ...before,
    email: patch.email?.toLowerCase() ?? before.email,
    username: patch.username ?? before.username,
    passwordHash: patch.passwordHash ?? before.passwordHash,
    profileJson: yield* patchProfile(before.profileJson, patch.profile),
    updatedAt: now,
  };
}

/** Two members that a PATCH cannot change at once, in the order in which a refusal names them. */
export function clashingMembers(sent: object): readonly [string, string] | undefined {
  return clashes.find((pair) => pair.every((name) => Object.hasOwn(sent, name)));
}

const clashes = [
  ['password', 'email'],
  ['password', 'email_verified'],
  ['password', 'username'],
  ['username', 'email'],
  ['username', 'email_verified'],
] as const;

/**
 * Returns the user as clients and receivers see it, everything but the password: texts of JSON objects
 * whose members, one object after the other, are those of the user.
 */
export function userParts(user: User): string[] {
  const { id, connection, email, username } = user;
  const [provider, localId] = idParts(id);
  const before = { user_id: id, email, username };
  const after = {
    created_at: formatTime(user.createdAt),
    updated_at: formatTime(user.updatedAt),
    identities: [{ connection, user_id: localId, provider, isSocial: false }],
  };
  return [JSON.stringify(before), user.profileJson, JSON.stringify(after)];
}

/** What an event about a user takes from its surroundings. */
export interface UserEventFacts {
  /** Id of the event. */
  readonly id: string;
  readonly tenant: Pick<Tenant, 'name'>;
  /** LEAT_SERVICE_NAME. */
  readonly service: string;
  /** LEAT_ATTRIBUTE_PREFIX. */
  readonly prefix: string;
  readonly now: Millis;
  /** The `traceparent` of the request that changed the user. */
  readonly trace?: string | undefined;
}

/** The event that tells of a change; `user` is as the change leaves it, a deleted one as it was. */
export function userEvent(
  change: 'created' | 'updated' | 'deleted',
  user: User,
  { id, tenant, service, prefix, now, trace }: UserEventFacts,
): NewEvent {
  const deletion = change === 'deleted' ? [JSON.stringify({ deleted_at: formatTime(now) })] : [];
  const dataJson = `{"object":${objectOf([...userParts(user), ...deletion].map(innerOf))}}`;
  const type = `user.${change}`;
  const facts = { id, type, time: now, tenantName: tenant.name, service, prefix };
  const body = makeBodyFromText({ ...facts, dataJson, extensionsJson: '' });
  return { id, chosen: false, type, time: now, body, trace };
}

/**
 * At most 254 characters (RFC 5321 section 4.5.3.1.3), one `@` between two texts without spaces and
 * control characters. More cannot be known without sending to it.
 */
export function isEmail(text: string): boolean {
  return /^(?=.{3,254}$)[^@\s\p{Cc}]+@[^@\s\p{Cc}]+$/u.test(text);
}

/** Both metadata merge at their first level. */
function* patchProfile(beforeJson: string, patch: ProfilePatch): Slices<string> {
  const after = yield* membersByName(beforeJson);
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) after.delete(name);
    else if (isMetadata(name)) {
      after.set(name, yield* mergedMember(name, after.get(name), value));
    } else after.set(name, memberText(name, JSON.stringify(value)));
  }
  // An empty app_metadata is none, unlike an empty user_metadata.
  if (after.get('app_metadata') === memberText('app_metadata', '{}')) after.delete('app_metadata');
  return objectOf([...after.values()]);
}

function isMetadata(name: string): boolean {
  return name === 'user_metadata' || name === 'app_metadata';
}

/** An empty object clears, a member that is null removes its key. */
function* mergedMember(name: string, before: string | undefined, patch: unknown): Slices<string> {
  if (isEmpty(patch)) return memberText(name, '{}');
  const present = before === undefined ? '{}' : before.slice(memberText(name, '').length);
  const after = yield* membersByName(present);
  for (const [key, value] of Object.entries(Object(patch) as object)) {
    if (value === null) after.delete(key);
    else after.set(key, memberText(key, JSON.stringify(value)));
  }
  return memberText(name, objectOf([...after.values()]));
}

/** The texts of an object's members, each with its name. */
function* membersByName(objectJson: string): Slices<Map<string, string>> {
  const members = yield* membersOf(objectJson);
  return new Map(members.map(({ name, text }) => [name, text]));
}

function memberText(name: string, valueJson: string): string {
  return `${JSON.stringify(name)}:${valueJson}`;
}

/** The text of an object without its braces. */
function innerOf(objectJson: string): string {
  return objectJson.slice(1, -1);
}

/** The text of an object of these members, or runs of members; an empty one is none. */
function objectOf(members: readonly string[]): string {
  return `{${members.filter((member) => member !== '').join(',')}}`;
}

function isEmpty(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}

function idParts(id: string): [provider: string, localId: string] {
  const at = id.indexOf('|');
  return [id.slice(0, at), id.slice(at + 1)];
}
