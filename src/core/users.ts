import type { Millis, RandomBytes } from './clock.ts';
import { formatTime } from './date.ts';
import { makeBody } from './envelope.ts';
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
    profile: patchProfile(defaults, sent.profile),
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
export function applyUserPatch(before: User, patch: UserPatch, now: Millis): User {
  return {
    ...before,
    email: patch.email?.toLowerCase() ?? before.email,
    username: patch.username ?? before.username,
    passwordHash: patch.passwordHash ?? before.passwordHash,
    profile: patchProfile(before.profile, patch.profile),
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

/** The user as clients and receivers see it (contract section 13): everything but the password. */
export function userObject(user: User): Readonly<Record<string, unknown>> {
  const { before, after } = aroundProfile(user);
  return { ...before, ...user.profile, ...after };
}

/** The members of the object that stand before and after those of the profile, which has others. */
export function aroundProfile(user: Omit<User, 'profile'>): {
  readonly before: Readonly<Record<string, unknown>>;
  readonly after: Readonly<Record<string, unknown>>;
} {
  const { id, connection, email, username } = user;
  const [provider, localId] = idParts(id);
  return {
    before: { user_id: id, email, ...(username === undefined ? {} : { username }) },
    after: {
      created_at: formatTime(user.createdAt),
      updated_at: formatTime(user.updatedAt),
      identities: [{ connection, user_id: localId, provider, isSocial: false }],
    },
  };
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
  const shown = userObject(user);
  const object = change === 'deleted' ? { ...shown, deleted_at: formatTime(now) } : shown;
  const type = `user.${change}`;
  const data = { object };
  const body = makeBody({ id, type, time: now, data, tenantName: tenant.name, service, prefix });
  return { id, chosen: false, type, time: now, body, trace };
}

/**
 * At most 254 characters (RFC 5321 section 4.5.3.1.3), one `@` between two texts without spaces and
 * control characters. More cannot be known without sending to it.
 */
export function isEmail(text: string): boolean {
  return /^(?=.{3,254}$)[^@\s\p{Cc}]+@[^@\s\p{Cc}]+$/u.test(text);
}

/**
 * Both metadata merge at their first level. A Map and `fromEntries`, since a member may be named
 * `__proto__`.
 */
function patchProfile(before: User['profile'], patch: ProfilePatch): User['profile'] {
  const after = new Map(Object.entries(before));
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) after.delete(name);
    else after.set(name, isMetadata(name) ? merge(before[name], value) : value);
  }
  // An empty app_metadata is none, unlike an empty user_metadata.
  if (isEmpty(after.get('app_metadata'))) after.delete('app_metadata');
  return Object.fromEntries(after);
}

function isMetadata(name: string): boolean {
  return name === 'user_metadata' || name === 'app_metadata';
}

/** An empty object clears, a member that is null removes its key. */
function merge(before: unknown, patch: unknown): object {
  if (isEmpty(patch)) return {};
  const members = [...entries(before), ...entries(patch)];
  return Object.fromEntries([...new Map(members)].filter(([, value]) => value !== null));
}

function entries(value: unknown): [string, unknown][] {
  return typeof value === 'object' && value !== null ? Object.entries(value) : [];
}

function isEmpty(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}

function idParts(id: string): [provider: string, localId: string] {
  const at = id.indexOf('|');
  return [id.slice(0, at), id.slice(at + 1)];
}
