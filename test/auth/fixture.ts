import { randomBytes } from 'node:crypto';
import { bootstrap, createTenant } from '../../src/auth/bootstrap.ts';
import {
  type Credentials,
  hashSecret,
  makeClientId,
  makeClientSecret,
} from '../../src/auth/clients.ts';
import { createKeyring, type Keyring } from '../../src/auth/keys.ts';
import type { KeySource } from '../../src/auth/signature.ts';
import { createTokenEndpoint, type TokenEndpoint } from '../../src/auth/token.ts';
import { createVerifier, type Verifier } from '../../src/auth/verify.ts';
import { systemClock } from '../../src/clock.ts';
import type { Clock, RandomBytes } from '../../src/core/clock.ts';
import type { Client, Tenant } from '../../src/core/types.ts';
import type { StoreTime } from '../../src/store/port/time.ts';
import { createGuardedTime } from '../../src/store/sqlite/guarded-time.ts';
import { openSqliteStore } from '../../src/store/sqlite/store.ts';
import type { Store } from '../../src/store/port/store.ts';

/** The auth room over a real store in memory, with a clock that is moved by hand. */
export interface House {
  readonly store: Store;
  readonly tenant: Tenant;
  readonly clock: HandClock;
  /** The time of the store: that of the clock, until a test sets it. */
  readonly time: { at: number };
  readonly keyring: Keyring;
  readonly verifier: Verifier;
  readonly endpoint: TokenEndpoint;
  /** The bootstrap client. */
  readonly manager: Credentials;
  /** A token of a client for an audience, the management API unless said. */
  token(credentials?: Credentials, audience?: string): Promise<string>;
  /** A token request in form encoding. */
  ask(parameters: Record<string, string>, authorization?: string): Promise<Asked>;
  /** A client with a secret; a grant for the management API too when scopes are given. */
  client(facts?: Partial<Client>, scopes?: readonly string[]): Promise<Credentials>;
  close(): Promise<void>;
}

export interface Asked {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;
}

export interface HandClock extends Clock {
  move(byMs: number): void;
}

export const random: RandomBytes = (count) => randomBytes(count);

export const plainHttp = (domain: string): boolean => domain.startsWith('localhost');

export async function openHouse(
  options: {
    domain?: string;
    trusted?: ReadonlyMap<string, KeySource>;
    /** Wraps the store, to watch what it is asked. */
    around?: (store: Store) => Store;
    /** Opens the store; it is SQLite in memory unless said. */
    open?: () => Promise<
      Pick<Store, 'close'> & { readonly store: Store; readonly time?: { at: number } }
    >;
  } = {},
): Promise<House> {
  const place = await options.open?.();
  const hand = handClock();
  let aheadMs = 0;
  /** A store with a time of its own to set has that of the house. */
  const setPlace = (to: number): void => {
    if (place?.time !== undefined) place.time.at = to;
  };
  const time = {
    get at() {
      return hand.now() + aheadMs;
    },
    set at(to) {
      aheadMs = to - hand.now();
      setPlace(to);
    },
  };
  const clock: HandClock = {
    ...hand,
    move: (byMs) => {
      setPlace(time.at + byMs);
      hand.move(byMs);
    },
  };
  setPlace(time.at);
  const opened =
    place?.store ?? (await openMemory({ now: () => time.at, skewMs: () => 0, skews: 0 }));
  const store = options.around?.(opened) ?? opened;
  const domain = options.domain ?? 'leat.example.com';
  const wish = { name: 'main', domain, deliverCredentials: async () => {} };
  const { tenant, generated } = await bootstrap({ store, random, now: clock.now() }, wish);
  if (generated === undefined) throw new Error('no bootstrap client');
  const watch = store.watch.bind(store);
  const keyring = createKeyring({ keys: store.keys, watch, clock });
  const { trusted } = options;
  const verifier = createVerifier({
    keyring,
    clients: store.clients,
    watch,
    clock,
    plainHttp,
    trusted,
  });
  const endpoint = createTokenEndpoint({ store, keyring, plainHttp });

  const ask: House['ask'] = async (parameters, authorization) =>
    (await endpoint.issue({
      tenant,
      authorization,
      contentType: 'application/x-www-form-urlencoded',
      body: new URLSearchParams(parameters).toString(),
      now: clock.now(),
    })) as Asked;

  return {
    store,
    tenant,
    clock,
    time,
    keyring,
    verifier,
    endpoint,
    manager: generated,
    ask,
    token: async ({ clientId, clientSecret } = generated, audience = '/api/v2/') => {
      const answer = await ask({
        grant_type: 'client_credentials',
        client_id: clientId,
        client_secret: clientSecret,
        audience,
      });
      const token = answer.body['access_token'];
      if (typeof token !== 'string') throw new Error(JSON.stringify(answer));
      return token;
    },
    client: (facts, scopes) => makeClient(store, tenant.id, clock, facts, scopes),
    close: async () => {
      verifier.close();
      keyring.close();
      await (place ?? opened).close();
    },
  };
}

/** A second tenant of a house, with a manager of its own. */
export async function secondTenant(
  { store, clock }: House,
  domain = 'other.example.com',
): Promise<{ tenant: Tenant; manager: Credentials }> {
  const deps = { store, random, now: clock.now() };
  const answer = await createTenant(deps, { name: domain.split('.')[0] ?? 'other', domain });
  if ('refused' in answer) throw new Error(answer.refused);
  return { tenant: answer.created, manager: answer };
}

export function openMemory(time: StoreTime = createGuardedTime(systemClock)): Promise<Store> {
  const location = { path: ':memory:', file: undefined };
  const defer = (action: () => void): void => void setImmediate(action);
  const report = (): void => undefined;
  const deps = { secretKey: randomBytes(32), random, clock: systemClock, time, defer, report };
  return openSqliteStore(location, deps);
}

export function handClock(startMs = Date.parse('2026-03-01T09:30:00.000Z')): HandClock {
  let elapsedMs = 0;
  const pending = new Map<object, { readonly dueMs: number; readonly action: () => void }>();
  return {
    now: () => startMs + elapsedMs,
    elapsedMs: () => elapsedMs,
    after: (delayMs, action) => {
      const timer = { cancel: () => void pending.delete(timer) };
      pending.set(timer, { dueMs: elapsedMs + delayMs, action });
      return timer;
    },
    move: (byMs) => {
      elapsedMs += byMs;
      for (const [timer, { dueMs, action }] of pending) {
        if (dueMs > elapsedMs) continue;
        pending.delete(timer);
        action();
      }
    },
  };
}

async function makeClient(
  store: Store,
  tenant: number,
  clock: Clock,
  facts: Partial<Client> = {},
  scopes?: readonly string[],
): Promise<Credentials> {
  const credentials = {
    clientId: facts.id ?? makeClientId(random),
    clientSecret: makeClientSecret(random),
  };
  const answer = await store.clients.create({
    tenant,
    id: credentials.clientId,
    name: 'test',
    global: true,
    issuer: undefined,
    secretHash: hashSecret(credentials.clientSecret),
    jwks: undefined,
    createdAt: clock.now(),
    ...facts,
  });
  if ('refused' in answer) throw new Error(answer.refused);
  if (scopes !== undefined) {
    const id = `cgr_${credentials.clientId}`;
    const grant = { tenant, id, client: credentials.clientId, api: 'management', scope: scopes };
    const granted = await store.grants.create(grant);
    if ('refused' in granted) throw new Error(granted.refused);
  }
  return credentials;
}
