import type { Clock } from '../../core/clock.ts';
import type { ClientCredentials } from '../../core/types.ts';
import { type FetchLimits, FetchQueue } from './fetch-queue.ts';
import type { TokenEndpoints } from './token-endpoint.ts';
import type { TokenFailure, TokenResponse } from './token-response.ts';

/** The credentials of a stream. Streams with the same key share their tokens. */
export interface TokenOwner {
  readonly tenant: number;
  /** Names tenant and credentials, all of them: see {@link tokenOwnerOf}. */
  readonly key: string;
  readonly credentials: ClientCredentials;
}

/** Returns the owner of the tokens of these credentials, which no other tenant shares. */
export function tokenOwnerOf(tenant: number, credentials: ClientCredentials): TokenOwner {
  const { tokenEndpoint, clientId, clientSecret, scope, audience } = credentials;
  const key = JSON.stringify([
    tenant,
    tokenEndpoint,
    clientId,
    clientSecret,
    scope ?? null,
    audience ?? null,
  ]);
  return { tenant, key, credentials };
}

/** A token, or why there is none: a text of ours. */
export type TokenResult = { readonly kind: 'token'; readonly token: string } | TokenFailure;

/** The access tokens of a node: fetched one at a time per owner, kept until they expire. */
export interface AccessTokens {
  /**
   * Returns true when {@link AccessTokens.find} has a result at once: a token that has not expired,
   * or a failure of the last second. A token that expires soon is replaced meanwhile. Otherwise
   * fetches one, and resolves when that has ended; never rejects. Cheap: called per attempt.
   */
  prepare(owner: TokenOwner): true | Promise<void>;
  /** Returns whether {@link AccessTokens.prepare} would return true; fetches nothing. */
  isReady(owner: TokenOwner): boolean;
  /** Returns the token or the last failure; fetches only where there is neither. */
  find(owner: TokenOwner): TokenResult | Promise<TokenResult>;
  /**
   * Returns another token than the one that a receiver has refused. Fetches at most one a minute for
   * refusals of a token that has not expired; `undefined` when it must not. Without success the refused
   * one is not used any more.
   */
  replace(owner: TokenOwner, refused: string): TokenResult | Promise<TokenResult> | undefined;
  /** The newest tokens of the owner, which texts of receivers may hold. The same list until it changes. */
  tokensOf(owner: TokenOwner): readonly string[];
  /** Ends all fetches; later ones fail at once. */
  close(): void;
}

export interface AccessTokensDeps {
  readonly clock: Pick<Clock, 'elapsedMs'>;
  readonly endpoints: TokenEndpoints;
  readonly limits: TokenLimits;
}

export interface TokenLimits extends FetchLimits {
  /** Tokens are replaced this long before they expire, or earlier where they live short. */
  readonly refreshMs: number;
  /** How long a failure is used instead of another fetch. */
  readonly failureKeptMs: number;
  /** From one fetch because of a refusal to the next. */
  readonly replaceMs: number;
  /** Former tokens included: those that are found in texts of receivers. */
  readonly rememberedTokens: number;
  /** Of all owners; the least recently used ones are removed first. */
  readonly charactersMax: number;
}

/** See {@link AccessTokens}. */
export function createAccessTokens(deps: AccessTokensDeps): AccessTokens {
  return new SharedTokens(deps);
}

interface Entry {
  readonly owner: TokenOwner;
  present:
    | { readonly token: string; readonly refreshMs: number; readonly endsMs: number }
    | undefined;
  failed: { readonly failure: TokenFailure; readonly endsMs: number } | undefined;
  /** Newest first. */
  tokens: readonly string[];
  fetching: Promise<TokenResult> | undefined;
  /** Of the last fetch because of a refusal. */
  replacedMs: number | undefined;
}

class SharedTokens implements AccessTokens {
  readonly #deps: AccessTokensDeps;
  readonly #queue: FetchQueue;
  /** The least recently used first. */
  readonly #entries = new Map<string, Entry>();
  #characters = 0;

  constructor(deps: AccessTokensDeps) {
    this.#deps = deps;
    this.#queue = new FetchQueue(deps.limits);
  }

  prepare(owner: TokenOwner): true | Promise<void> {
    const entry = this.#entryOf(owner);
    const nowMs = this.#deps.clock.elapsedMs();
    if (resultOf(entry, nowMs) === undefined) return this.#fetch(entry).then(ignore);
    const mustRefresh = entry.present !== undefined && nowMs >= entry.present.refreshMs;
    if (mustRefresh && !hasFailed(entry, nowMs)) void this.#fetch(entry);
    return true;
  }

  isReady({ key }: TokenOwner): boolean {
    const entry = this.#entries.get(key);
    return entry !== undefined && resultOf(entry, this.#deps.clock.elapsedMs()) !== undefined;
  }

  find(owner: TokenOwner): TokenResult | Promise<TokenResult> {
    const entry = this.#entryOf(owner);
    return resultOf(entry, this.#deps.clock.elapsedMs()) ?? this.#fetch(entry);
  }

  replace(owner: TokenOwner, refused: string): TokenResult | Promise<TokenResult> | undefined {
    const { clock, limits } = this.#deps;
    const entry = this.#entryOf(owner);
    const nowMs = clock.elapsedMs();
    const { present, replacedMs } = entry;
    // An expired token is replaced in any case.
    if (present?.token !== refused || nowMs >= present.endsMs) return this.find(owner);
    if (entry.fetching !== undefined) return entry.fetching;
    if (replacedMs !== undefined && nowMs - replacedMs < limits.replaceMs) return undefined;
    entry.replacedMs = nowMs;
    return this.#replace(entry, refused);
  }

  tokensOf({ key }: TokenOwner): readonly string[] {
    return this.#entries.get(key)?.tokens ?? none;
  }

  close(): void {
    this.#deps.endpoints.close();
  }

  async #replace(entry: Entry, refused: string): Promise<TokenResult> {
    const result = await this.#fetch(entry);
    // Without it the next attempts wait for a token before they take a slot.
    if (result.kind === 'failed' && entry.present?.token === refused) entry.present = undefined;
    return result;
  }

  #entryOf(owner: TokenOwner): Entry {
    const known = this.#entries.get(owner.key);
    const entry: Entry = known ?? {
      owner,
      present: undefined,
      failed: undefined,
      tokens: none,
      fetching: undefined,
      replacedMs: undefined,
    };
    if (known === undefined) this.#characters += charactersOf(entry);
    else this.#entries.delete(owner.key);
    this.#entries.set(owner.key, entry);
    if (known === undefined) this.#forgetSome();
    return entry;
  }

  #fetch(entry: Entry): Promise<TokenResult> {
    if (entry.fetching !== undefined) return entry.fetching;
    const { promise, resolve } = Promise.withResolvers<TokenResult>();
    entry.fetching = promise;
    const { tenant, credentials } = entry.owner;
    this.#queue.enqueue(tenant, credentials.tokenEndpoint, async () => {
      const response = await this.#deps.endpoints.fetch(tenant, credentials);
      entry.fetching = undefined;
      resolve(this.#keep(entry, response));
    });
    return promise;
  }

  #keep(entry: Entry, response: TokenResponse): TokenResult {
    const { clock, limits } = this.#deps;
    const nowMs = clock.elapsedMs();
    if (response.kind === 'failed') {
      entry.failed = { failure: response, endsMs: nowMs + limits.failureKeptMs };
      return response;
    }
    const { token, lifetimeMs } = response;
    const leadMs = Math.min(limits.refreshMs, lifetimeMs / 4);
    const endsMs = nowMs + lifetimeMs;
    const isKnown = this.#entries.get(entry.owner.key) === entry;
    if (isKnown) this.#characters -= charactersOf(entry);
    entry.failed = undefined;
    entry.present = { token, refreshMs: endsMs - leadMs, endsMs };
    if (entry.tokens[0] !== token) {
      entry.tokens = [...new Set([token, ...entry.tokens])].slice(0, limits.rememberedTokens);
    }
    if (isKnown) this.#characters += charactersOf(entry);
    this.#forgetSome();
    return { kind: 'token', token };
  }

  #forgetSome(): void {
    for (const entry of this.#entries.values()) {
      if (this.#characters <= this.#deps.limits.charactersMax) return;
      if (entry.fetching !== undefined) continue;
      this.#entries.delete(entry.owner.key);
      this.#characters -= charactersOf(entry);
    }
  }
}

const none: readonly string[] = [];

/** What an entry takes besides its texts, about. */
const entryCharacters = 500;

function charactersOf({ owner, tokens }: Entry): number {
  return tokens.reduce((sum, { length }) => sum + length, 2 * owner.key.length + entryCharacters);
}

function hasFailed({ failed }: Entry, nowMs: number): boolean {
  return failed !== undefined && nowMs < failed.endsMs;
}

function resultOf(entry: Entry, nowMs: number): TokenResult | undefined {
  const { present, failed } = entry;
  if (present !== undefined && nowMs < present.endsMs) {
    return { kind: 'token', token: present.token };
  }
  return hasFailed(entry, nowMs) ? failed?.failure : undefined;
}

function ignore(): void {}
