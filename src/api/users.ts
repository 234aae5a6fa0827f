import { issuerOf } from '../auth/issuer.ts';
import { createPasswordHasher, isWeak } from '../auth/passwords.ts';
import type { RandomBytes } from '../core/clock.ts';
import { makeId } from '../core/ids.ts';
import { mailbox } from '../core/mailbox.ts';
import type { User } from '../core/types.ts';
import {
  applyUserPatch,
  clashingFields,
  databaseConnection,
  isEmail,
  makeLocalId,
  newUser,
  profileLengthMax,
  profilePartsMax,
  userEvent,
  type UserEventFields,
} from '../core/users.ts';
import {
  user,
  type UserCreate,
  userCreate,
  userParams,
  userPatch,
  type UserPatchSent,
} from '../schemas/users.ts';
import type { Store } from '../store/port/store.ts';
import { ClientGone } from './http/body.ts';
import { sizeOf } from '../core/json-parts.ts';
import { runInSlices } from '../core/slices.ts';
import { formatViolation } from './http/violation.ts';
import { noUser, orNotFound } from './not-found.ts';
import { type Call, type Operation, operation } from './operation.ts';
import { badBody, conflict, Problem } from './http/problem.ts';
import type { ApiSettings } from './settings.ts';
import { changedName, refuseInvisible, sentName } from './sent-name.ts';
import { showUser } from './show-user.ts';
import { oneQuery } from '../schemas/fields.ts';
import { createTurnQueue } from './http/turn-queue.ts';
import { userLists } from './user-lists.ts';

export interface UserDeps {
  readonly store: Pick<Store, 'users' | 'recording'>;
  readonly random: RandomBytes;
  readonly settings: Pick<ApiSettings, 'serviceName' | 'attributePrefix' | 'plainHttp' | 'limits'>;
}

interface Deps extends UserDeps {
  /** Queues a password for hashing, tenants in turn. Throws `ClientGone` if the client disconnects. */
  hashPassword(call: Pick<Call, 'tenant' | 'isGone'>, password: string): Promise<string>;
}

/** Hashing takes some 50 ms on one of the four threads of the pool, which file access needs too. */
const hashesAtOnce = { atOnce: 2, ofOwner: 2 };

const metadata = ['user_metadata', 'app_metadata'] as const;

const shared = { tag: 'Users', lifecycle: 'Generally Available' } as const;
const usernameField = { property: 'username', description: "The user's user name" };

/** Creates the operations of users (docs/http-api.md#users). */
export function userOperations(deps: UserDeps): Operation[] {
  const hash = createPasswordHasher(deps);
  const hashing = createTurnQueue(hashesAtOnce);
  const hashPassword: Deps['hashPassword'] = ({ tenant, isGone }, password) =>
    hashing.run(tenant.id, async () => {
      if (isGone()) throw new ClientGone();
      return hash(password);
    });
  const complete = { ...deps, hashPassword };
  return [
    ...userLists(complete),
    createUser(complete),
    readUser(complete),
    updateUser(complete),
    deleteUser(complete),
  ];
}

function createUser(deps: Deps): Operation {
  return operation({
    ...shared,
    operationId: 'createUser',
    method: 'POST',
    path: '/users',
    summary: 'Create a user',
    description: 'Emits the event `user.created`.',
    scopes: ['create:users'],
    body: { schema: userCreate, required: true, numbersKept: metadata },
    success: 201,
    response: user,
    errors: [409],
    handle: async (call) => ({ body: await create(deps, call) }),
  });
}

async function create(deps: Deps, call: Call<unknown, unknown, UserCreate>): Promise<object> {
  const { tenant, body, now, trace } = call;
  const { email, password, connection, user_id: sentId } = body;
  checkEmail(email);
  const username = body.username && sentName(body.username, usernameField);
  checkConnection(connection);
  if (isWeak(password, email)) throw weakPassword();
  const { store, random, settings } = deps;
  const requested = newUser({
    tenant: tenant.id,
    provider: settings.serviceName,
    localId: sentId ?? makeLocalId(now, random),
    email,
    username,
    passwordHash: await deps.hashPassword(call, password),
    profile: profileOf(body),
    issuer: issuerOf(tenant.domain, settings.plainHttp(tenant.domain)),
    now,
  });
  const event = userEvent('created', requested, eventFields(deps, { tenant, now, trace }));
  const result = await store.recording(call.entry(requested.id)).users.create(requested, event);
  if ('refused' in result) throw duplicate(settings);
  return showUser(result.created);
}

function readUser({ store }: Deps): Operation {
  return operation({
    ...shared,
    operationId: 'readUser',
    method: 'GET',
    path: '/users/:id',
    summary: 'Read a user',
    scopes: ['read:users'],
    params: userParams,
    query: oneQuery,
    success: 200,
    response: user,
    errors: [404],
    handle: async ({ tenant, params, query }) => {
      const found = orNotFound(await store.users.get(tenant.id, params.id), noUser, params.id);
      return { body: showUser(found, query) };
    },
  });
}

function updateUser(deps: Deps): Operation {
  return operation({
    ...shared,
    operationId: 'updateUser',
    method: 'PATCH',
    path: '/users/:id',
    summary: 'Update a user',
    description: 'Any subset of the fields. Emits the event `user.updated`.',
    scopes: ['update:users'],
    params: userParams,
    body: { schema: userPatch, required: true, numbersKept: metadata },
    success: 200,
    response: user,
    errors: [404, 409],
    handle: async (call) => ({ body: await update(deps, call) }),
  });
}

async function update(
  deps: Deps,
  call: Call<{ id: string }, unknown, UserPatchSent>,
): Promise<object> {
  const { tenant, params, body, now, trace } = call;
  checkPatch(body);
  const { password } = body;
  const passwordHash = password === undefined ? undefined : await hashFor(deps, call, password);
  const patch = { passwordHash, profile: profileOf(body) };
  const recording = deps.store.recording(call.entry(params.id));
  const result = await recording.users.update(tenant.id, params.id, async (before) => {
    // A concurrent PATCH may have changed the e-mail, which the password must not equal.
    if (password !== undefined && isWeak(password, before.email)) return { refused: 'weak' };
    const username = changedName(before.username, body.username, usernameField);
    const email = changedEmail(before.email, body.email);
    const after = await runInSlices(applyUserPatch(before, { ...patch, email, username }, now));
    const { profileJson } = after;
    if (profileJson.length > profileLengthMax) return { refused: 'too_long' };
    if (profileJson.length > profilePartsMax) {
      const { parts } = await runInSlices(sizeOf(Buffer.from(profileJson)));
      if (parts > profilePartsMax) return { refused: 'too_many_parts' };
    }
    return {
      after,
      event: userEvent('updated', after, eventFields(deps, { tenant, now, trace })),
    };
  });
  if ('refused' in result) {
    const { refused } = result;
    throw refused === 'unknown' ? noUser(params.id) : refusals[refused](deps.settings);
  }
  return showUser(result.updated);
}

/** Checks a PATCH as far as possible without reading the user. Throws 400. */
function checkPatch(body: UserPatchSent): void {
  const clash = clashingFields(body);
  if (clash !== undefined) {
    const message = `Cannot update ${clash[0]} and ${clash[1]} simultaneously.`;
    throw new Problem(400, message, 'invalid_body');
  }
  if (body.connection !== undefined) checkConnection(body.connection);
}

/** Returns the hash of a user's new password; checks user and password before the slow hashing. */
async function hashFor(
  { store, hashPassword }: Deps,
  call: Call<{ id: string }>,
  password: string,
): Promise<string> {
  if (isWeak(password, '')) throw weakPassword();
  const before = orNotFound(
    await store.users.get(call.tenant.id, call.params.id),
    noUser,
    call.params.id,
  );
  if (isWeak(password, before.email)) throw weakPassword();
  return hashPassword(call, password);
}

function deleteUser(deps: Deps): Operation {
  return operation({
    ...shared,
    operationId: 'deleteUser',
    method: 'DELETE',
    path: '/users/:id',
    summary: 'Delete a user',
    description: 'Also 204 if the user does not exist. Emits the event `user.deleted`.',
    scopes: ['delete:users'],
    params: userParams,
    success: 204,
    handle: async ({ tenant, params, now, trace, entry }) => {
      const emit = (before: User) =>
        userEvent('deleted', before, eventFields(deps, { tenant, now, trace }));
      await deps.store.recording(entry(params.id)).users.delete(tenant.id, params.id, emit);
      return {};
    },
  });
}

/** Returns the fields that belong to the profile. */
function profileOf(sent: UserCreate | UserPatchSent): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(sent).filter(([name]) => !notInProfile.has(name)));
}

/** Stored separately, or without effect. */
const notInProfile = new Set([
  'email',
  'password',
  'connection',
  'user_id',
  'username',
  'verify_email',
]);

function eventFields(
  { random, settings }: Deps,
  { tenant, now, trace }: Pick<Call, 'tenant' | 'now' | 'trace'>,
): UserEventFields {
  const { serviceName: service, attributePrefix: prefix } = settings;
  return { id: makeId('evt_', now, random), tenant, service, prefix, now, trace };
}

/** Returns the e-mail that a PATCH sets; `undefined` for the stored one, whatever an earlier version allowed. */
function changedEmail(before: string, sent: string | undefined): string | undefined {
  if (sent === undefined || sent.toLowerCase() === before) return undefined;
  checkEmail(sent);
  return sent;
}

function checkEmail(email: string): void {
  const field = { property: 'email', description: "The user's e-mail" };
  if (!isEmail(email)) {
    throw badBody(formatViolation('email', email), field.property, field.description);
  }
  // Those that a domain ignores are gone.
  refuseInvisible(mailbox(email), field);
}

function checkConnection(name: string): void {
  if (name === databaseConnection) return;
  throw new Problem(400, 'The connection does not exist.', 'inexistent_connection');
}

const refusals = {
  weak: weakPassword,
  duplicate,
  too_long: () => {
    const reason = `Metadata is too long, maximum ${profileLengthMax} characters`;
    return badBody(reason, 'user_metadata', 'What the user may change');
  },
  too_many_parts: () => {
    const reason = `Metadata has more than ${profilePartsMax} arrays, objects and members of objects`;
    return badBody(reason, 'user_metadata', 'What the user may change');
  },
};

function weakPassword(): Problem {
  return new Problem(400, 'PasswordStrengthError: Password is too weak');
}

function duplicate({ serviceName }: Pick<ApiSettings, 'serviceName'>): Problem {
  return conflict('The user already exists.', `${serviceName}_idp_error`);
}
