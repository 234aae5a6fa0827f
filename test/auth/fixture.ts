import { randomBytes } from 'node:crypto';
import { bootstrap, createTenant } from '../../src/auth/bootstrap.ts';
import {
  type Credentials,
  hashSecret,
  makeClientId,
  makeClientSecret,
} from '../../src/auth/clients.ts';
import { type Ed25519Jwk, webhookKeys } from '../../src/auth/key-use.ts';
import { createKeyring, createKeyringOf, type Keyring } from '../../src/auth/keys.ts';
import type { KeySource } from '../../src/auth/signature.ts';
import { createTokenEndpoint, type TokenEndpoint } from '../../src/auth/token.ts';
import { createVerifier, type Verifier } from '../../src/auth/verify.ts';
import { systemClock } from '../../src/clock.ts';
import { firstCredentialsVersion } from '../../src/core/clients.ts';
import type { Clock, Millis, RandomBytes } from '../../src/core/clock.ts';
import type { Client, SigningKey, Tenant } from '../../src/core/types.ts';
import type { StoreTime } from '../../src/store/port/time.ts';
import { createGuardedTime } from '../../src/store/engine/sqlite/guarded-time.ts';
import type { Store } from '../../src/store/port/store.ts';
import { createManualClock, type ManualClock } from '../helpers/clock.ts';
import { openMemoryCopy } from '../helpers/sqlite.ts';

/** Tenant, keyring, verifier and token endpoint on a real store in memory, with a manual clock. */
export interface AuthFixture {
  readonly store: Store;
  readonly tenant: Tenant;
  readonly clock: ManualClock;
  /** Time of the store: follows the clock until a test sets it. */
  readonly time: { at: number };
  readonly keyring: Keyring;
  readonly webhookKeyring: Keyring<Ed25519Jwk>;
  readonly verifier: Verifier;
  readonly endpoint: TokenEndpoint;
  /** The bootstrap client. */
  readonly manager: Credentials;
  /** Issues a token to a client (by default the bootstrap client) for an audience (the management API). */
  token(credentials?: Credentials, audience?: string): Promise<string>;
  /** Sends a token request in form encoding. */
  requestToken(parameters: Record<string, string>, authorization?: string): Promise<TokenResult>;
  /** Creates a client with a secret, and with scopes also a grant for the management API. */
  client(fields?: Partial<Client>, scopes?: readonly string[]): Promise<Credentials>;
  close(): Promise<void>;
}

export interface TokenResult {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;
}

export const random: RandomBytes = (count) => randomBytes(count);

export const plainHttp = (domain: string): boolean => domain.startsWith('localhost');

export async function openAuthFixture(
  options: {
    domain?: string;
    trusted?: ReadonlyMap<string, KeySource>;
    /** Where ids and secrets come from, except those of the store. */
    random?: RandomBytes;
    /** Wraps the store, for example to count reads. */
    around?: (store: Store) => Store;
    /** Opens the store; by default SQLite in memory. */
    open?: () => Promise<
      Pick<Store, 'close'> & { readonly store: Store; readonly time?: { at: number } }
    >;
  } = {},
): Promise<AuthFixture> {
  const engine = await options.open?.();
  const { clock, time } = createClockAndStoreTime(engine?.time);
  const opened =
    engine?.store ?? (await openMemoryStore({ now: () => time.at, skewMs: () => 0, skews: 0 }));
  const store = options.around?.(opened) ?? opened;
  const domain = options.domain ?? 'leat.example.com';
  const randomBytesOf = options.random ?? random;
  const bootstrapOptions = { name: 'main', domain, deliverCredentials: async () => {} };
  await addFormerKey(store, bootstrapOptions, clock.now());
  const bootstrapped = await bootstrap(
    { store, random: randomBytesOf, now: clock.now() },
    bootstrapOptions,
  );
  const { tenant, generated } = bootstrapped;
  if (generated === undefined) throw new Error('no bootstrap client');
  [firstKey] = await store.keys.list(tenant.id, clock.now());
  const watch = store.watch.bind(store);
  const keyring = createKeyring({ keys: store.keys, watch, clock });
  const webhookKeyring = createKeyringOf(webhookKeys, { keys: store.webhookKeys, watch, clock });
  const { trusted } = options;
  const verifier = createVerifier({
    keyring,
    clients: store.clients,
    watch,
    clock,
    plainHttp,
    trusted,
  });
  const endpoint = createTokenEndpoint({
    store,
    keyring,
    plainHttp,
    managementTokenSeconds: 3600,
  });

  const requestToken: AuthFixture['requestToken'] = async (parameters, authorization) =>
    (
      await endpoint.issue({
        tenant,
        authorization,
        contentType: 'application/x-www-form-urlencoded',
        body: new URLSearchParams(parameters).toString(),
        now: clock.now(),
      })
    ).response as TokenResult;

  return {
    store,
    tenant,
    clock,
    time,
    keyring,
    webhookKeyring,
    verifier,
    endpoint,
    manager: generated,
    requestToken,
    token: async ({ clientId, clientSecret } = generated, audience = '/api/v2/') => {
      const result = await requestToken({
        grant_type: 'client_credentials',
        client_id: clientId,
        client_secret: clientSecret,
        audience,
      });
      const token = result.body['access_token'];
      if (typeof token !== 'string') throw new Error(JSON.stringify(result));
      return token;
    },
    client: (fields, scopes) => createClient(store, tenant.id, clock, fields, scopes),
    close: async () => {
      verifier.close();
      keyring.close();
      webhookKeyring.close();
      await (engine ?? opened).close();
    },
  };
}

/** The first key of the fixtures of this process: to generate an RSA key takes longer than most tests. */
let firstKey: SigningKey | undefined;

/** Creates the first tenant of an empty store with the key of earlier fixtures, if there was one. */
async function addFormerKey(
  store: Store,
  options: { readonly name: string; readonly domain: string },
  now: Millis,
): Promise<void> {
  if (firstKey === undefined || (await store.tenants.list()).length > 0) return;
  const result = await store.tenants.create(options, now);
  if ('refused' in result) throw new Error(result.refused);
  const { kid, privateJwk } = firstKey;
  const tenant = result.created.id;
  await store.keys.addFirst({ tenant, kid, privateJwk, createdAt: now, signsFrom: now });
}

/** Creates a second tenant with its own bootstrap client. */
export async function secondTenant(
  { store, clock }: AuthFixture,
  domain = 'other.example.com',
): Promise<{ tenant: Tenant; manager: Credentials }> {
  const deps = { store, random, now: clock.now() };
  const result = await createTenant(deps, { name: domain.split('.')[0] ?? 'other', domain });
  if ('refused' in result) throw new Error(result.refused);
  return { tenant: result.created, manager: result };
}

/** A clock, and a store time that moves along with it; passes the store time on to the engine. */
function createClockAndStoreTime(engineTime: { at: number } | undefined): {
  clock: ManualClock;
  time: { at: number };
} {
  const manual = createManualClock();
  let aheadMs = 0;
  const setEngineTime = (to: number): void => {
    if (engineTime !== undefined) engineTime.at = to;
  };
  const time = {
    get at() {
      return manual.now() + aheadMs;
    },
    set at(to) {
      aheadMs = to - manual.now();
      setEngineTime(to);
    },
  };
  setEngineTime(time.at);
  const move = (byMs: number): void => {
    setEngineTime(time.at + byMs);
    manual.move(byMs);
  };
  return { clock: { ...manual, move }, time };
}

export function openMemoryStore(time: StoreTime = createGuardedTime(systemClock)): Promise<Store> {
  const defer = (action: () => void): void => void setImmediate(action);
  const report = (): void => undefined;
  const deps = { secretKeys: [randomBytes(32)], random, clock: systemClock, time, defer, report };
  return openMemoryCopy(deps);
}

async function createClient(
  store: Store,
  tenant: number,
  clock: Clock,
  fields: Partial<Client> = {},
  scopes?: readonly string[],
): Promise<Credentials> {
  const credentials = {
    clientId: fields.id ?? makeClientId(random),
    clientSecret: makeClientSecret(random),
  };
  const result = await store.clients.create({
    tenant,
    id: credentials.clientId,
    name: 'test',
    global: true,
    issuer: undefined,
    secretHash: hashSecret(credentials.clientSecret),
    jwks: undefined,
    credentialsVersion: firstCredentialsVersion,
    createdAt: clock.now(),
    ...fields,
  });
  if ('refused' in result) throw new Error(result.refused);
  if (scopes !== undefined) {
    const id = `cgr_${credentials.clientId}`;
    const grant = { tenant, id, client: credentials.clientId, api: 'management', scope: scopes };
    const granted = await store.grants.create(grant);
    if ('refused' in granted) throw new Error(granted.refused);
  }
  return credentials;
}
