import { type Millis, type RandomBytes, timeOfChange } from './clock.ts';
import { formatTime } from './date.ts';
import { makeBodyFromText } from './envelope.ts';
import { fieldsOf } from './json-parts.ts';
import { mailbox, userEmail } from './mailbox.ts';
import { runSync, type Slices } from './slices.ts';
import type { NewEvent, Tenant, User } from './types.ts';

/** The one database connection; it exists from the start. */
export const databaseConnection = 'Username-Password-Authentication';

/**
 * Maximum characters of a user's profile as JSON. A body limits each request, but metadata can grow
 * with every PATCH, and events contain it.
 */
export const profileLengthMax = 1_048_576;

/** Arrays, objects and fields of a profile: parsing and writing that many takes some 20 ms. */
export const profilePartsMax = 20_000;

/**
 * The fields of the user object that a client can set, by their wire names, except e-mail, username
 * and password. `null` removes a field.
 */
export type ProfilePatch = Readonly<Record<string, unknown>>;

/** The input of {@link newUser}. */
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
  /** With its trailing slash; the default picture is at `<issuer>avatar.svg`. */
  readonly issuer: string;
  readonly now: Millis;
}

/** Returns a new user: defaults filled in, the e-mail in the form of {@link userEmail}. */
export function newUser(sent: NewUser): User {
  const { tenant, provider, localId, username, passwordHash, issuer, now } = sent;
  const email = userEmail(sent.email);
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
    profileJson: runSync(patchProfile(JSON.stringify(defaults), sent.profile)),
    createdAt: now,
    updatedAt: now,
  };
}

/** Returns a new user id without its provider: 24 hexadecimal digits, the first 8 from the time. */
export function makeLocalId(now: Millis, random: RandomBytes): string {
  const seconds = Math.floor(now / 1000) % 2 ** 32;
  return seconds.toString(16).padStart(8, '0') + random(8).toHex();
}

/** The changes that a PATCH makes to a user; absent fields stay as they are. */
export interface UserPatch {
  readonly email?: string | undefined;
  readonly username?: string | undefined;
  readonly passwordHash?: string | undefined;
  readonly profile: ProfilePatch;
}

/** Returns the user with a PATCH applied. */
export function* applyUserPatch(before: User, patch: UserPatch, now: Millis): Slices<User> {
  return {
    ...before,
    email: patch.email === undefined ? before.email : userEmail(patch.email),
    username: patch.username ?? before.username,
    passwordHash: patch.passwordHash ?? before.passwordHash,
    profileJson: yield* patchProfile(before.profileJson, patch.profile),
    updatedAt: timeOfChange(before.updatedAt, now),
  };
}

/** Returns two sent fields that a PATCH cannot change together, in the order of the error message. */
export function clashingFields(sent: object): readonly [string, string] | undefined {
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
 * Returns the user as clients and receivers see it, without the password: JSON objects as text, whose
 * fields in order are those of the user.
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

/** The fields of a user event that do not come from the user. */
export interface UserEventFields {
  /** Id of the event. */
  readonly id: string;
  readonly tenant: Pick<Tenant, 'name'>;
  /** LEAT_SERVICE_NAME. */
  readonly service: string;
  /** LEAT_ATTRIBUTE_PREFIX. */
  readonly prefix: string;
  readonly now: Millis;
  /** The trace of the request that changed the user. */
  readonly trace?: string | undefined;
}

/**
 * Returns the event for a change. `user` is the state after it, or the last state if deleted. The time of
 * the event is later than that of the change before it, so that receivers can ignore older changes.
 */
export function userEvent(
  change: 'created' | 'updated' | 'deleted',
  user: User,
  { id, tenant, service, prefix, now, trace }: UserEventFields,
): NewEvent {
  const isDeletion = change === 'deleted';
  const time = isDeletion ? timeOfChange(user.updatedAt, now) : user.updatedAt;
  const deletion = isDeletion ? [JSON.stringify({ deleted_at: formatTime(time) })] : [];
  const dataJson = `{"object":${objectOf([...userParts(user), ...deletion].map(innerOf))}}`;
  const type = `user.${change}`;
  const fields = { id, type, time, tenantName: tenant.name, service, prefix };
  const body = makeBodyFromText({ ...fields, dataJson, extensionsJson: '' });
  return { id, chosen: false, type, time, body, trace };
}

/**
 * Returns whether a text can be an e-mail address: at most 254 characters (RFC 5321 section
 * 4.5.3.1.3), one `@` between two texts without spaces and control characters, no empty label in the
 * domain. Anything stricter would need a message sent to it.
 */
export function isEmail(text: string): boolean {
  const isWritten = /^(?=.{3,254}$)[^@\s\p{Cc}]+@[^@\s\p{Cc}]+$/u.test(text);
  return isWritten && !/@$|@\.|\.\.|\.$/.test(mailbox(text).replace(/^.*@/u, '@'));
}

/** Returns the profile with a PATCH applied; the two metadata fields merge at their first level. */
function* patchProfile(beforeJson: string, patch: ProfilePatch): Slices<string> {
  const after = yield* fieldsByName(beforeJson);
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) after.delete(name);
    else if (isMetadata(name)) {
      after.set(name, yield* mergedField(name, after.get(name), value));
    } else after.set(name, fieldText(name, JSON.stringify(value)));
  }
  // An empty app_metadata is removed, an empty user_metadata stays.
  if (after.get('app_metadata') === fieldText('app_metadata', '{}')) after.delete('app_metadata');
  return objectOf([...after.values()]);
}

function isMetadata(name: string): boolean {
  return name === 'user_metadata' || name === 'app_metadata';
}

/** Returns the merged metadata: an empty object clears it, a key that is null is removed. */
function* mergedField(name: string, before: string | undefined, patch: unknown): Slices<string> {
  if (isEmpty(patch)) return fieldText(name, '{}');
  const present = before === undefined ? '{}' : before.slice(fieldText(name, '').length);
  const after = yield* fieldsByName(present);
  for (const [key, value] of Object.entries(Object(patch) as object)) {
    if (value === null) after.delete(key);
    else after.set(key, fieldText(key, JSON.stringify(value)));
  }
  return fieldText(name, objectOf([...after.values()]));
}

/** Returns the text of each field by its name. */
function* fieldsByName(objectJson: string): Slices<Map<string, string>> {
  const fields = yield* fieldsOf(objectJson);
  return new Map(fields.map(({ name, text }) => [name, text]));
}

function fieldText(name: string, valueJson: string): string {
  return `${JSON.stringify(name)}:${valueJson}`;
}

/** Returns the text of an object without its braces. */
function innerOf(objectJson: string): string {
  return objectJson.slice(1, -1);
}

/** Returns the text of an object with these fields, or comma-separated fields; skips empty texts. */
function objectOf(fields: readonly string[]): string {
  return `{${fields.filter((field) => field !== '').join(',')}}`;
}

function isEmpty(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}

function idParts(id: string): [provider: string, localId: string] {
  const at = id.indexOf('|');
  return [id.slice(0, at), id.slice(at + 1)];
}
