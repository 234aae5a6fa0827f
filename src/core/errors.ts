/**
 * The errors that Leat throws: a broken dependency, a refused start or a bug. Expected outcomes are
 * values instead. Each class has a stable `code`; `api/http/problem.ts` maps them to HTTP and
 * `cli/outcome.ts` to exit codes.
 */
export type LeatError = StoreUnavailable | StoreContentRefused | StartRefused;

/** The store cannot be reached or cannot write now (disk full, connection broken). HTTP 503. */
export class StoreUnavailable extends Error {
  readonly code = 'store_unavailable';
  override readonly name: string = 'StoreUnavailable';
  readonly reason: UnavailableReason;
  /**
   * The write had reached the store, which did not say what became of it: it is stored as a whole, now
   * or later, or not at all. False: nothing was stored, nor will be.
   */
  readonly mayBeStored: boolean;

  constructor(
    message: string,
    { reason = 'away', mayBeStored = false, ...options }: ErrorOptions & Unavailability = {},
  ) {
    super(message, options);
    this.reason = reason;
    this.mayBeStored = mayBeStored;
  }
}

interface Unavailability {
  readonly reason?: UnavailableReason;
  readonly mayBeStored?: boolean;
}

/**
 * `away`: cannot be reached, or failed in another way. `read_only` and `full`: reads still work. `blocked`:
 * a write waits for something in the store, as a lock.
 * `outdated`: see {@link StoreOutdated}. `key`: another process has changed the key of the secrets,
 * and this one lacks the new key. `gone`: the file of the store was deleted or replaced.
 */
export type UnavailableReason =
  | 'away'
  | 'read_only'
  | 'full'
  | 'blocked'
  | 'outdated'
  | 'key'
  | 'gone';

/** A newer version of the program has changed the schema incompatibly. */
export class StoreOutdated extends StoreUnavailable {
  override readonly name = 'StoreOutdated';

  constructor(message: string) {
    super(message, { reason: 'outdated' });
  }
}

/**
 * The store is not the one this process joined: it failed over to a replica or was restored from a
 * backup, and its logs may be shorter than they were. Nothing was written. A publisher receives
 * HTTP 503 and retries; the dispatcher drops everything it remembers and joins again.
 */
export class StoreReplaced extends StoreUnavailable {
  override readonly name = 'StoreReplaced';
}

/** The store understood the command and refuses its content; trying again cannot help. */
export class StoreContentRefused extends Error {
  readonly code = 'store_content_refused';
  override readonly name: string = 'StoreContentRefused';
}

/** A text has a U+0000, which a store neither stores nor searches for. HTTP 400. */
export class StoreTextRefused extends StoreContentRefused {
  override readonly name = 'StoreTextRefused';
}

/** An event has the chosen id of another event with other content; nothing was appended. HTTP 409. */
export class StoreEventIdInUse extends StoreContentRefused {
  override readonly name = 'StoreEventIdInUse';
  /** Of the event in the append. */
  readonly index: number;

  constructor(index: number) {
    super('The log has an event with this id and other content.');
    this.index = index;
  }
}

/** The tenant of a write does not exist, or was removed concurrently. HTTP 404. */
export class StoreTenantGone extends StoreContentRefused {
  override readonly name = 'StoreTenantGone';

  constructor(tenant: number) {
    super(`There is no tenant ${tenant}.`);
  }
}

/** The program must not start. `message` is a single line for the operator; exit code 1. */
export class StartRefused extends Error {
  readonly code = 'start_refused';
  override readonly name = 'StartRefused';
}

/** Another process uses the file of the store: a server, or a command that ends soon. */
export class StoreInUse extends StartRefused {}

/** Returns the code of a system error, such as `ENOENT`; `undefined` for other errors. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}

/** A sealed secret cannot be opened. The message has no part of it. */
export class SealBroken extends Error {
  override readonly name = 'SealBroken';
}

/**
 * Returns whether an error of opening a sealed value is about that value: damage to the id in it looks
 * like a lacking key.
 */
export function isOfSealed(error: unknown): error is Error {
  return (
    error instanceof SealBroken || (error instanceof StoreUnavailable && error.reason === 'key')
  );
}
