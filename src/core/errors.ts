/**
 * The errors Leat throws. Expected outcomes are values, not exceptions; what is thrown is a broken
 * dependency, a refused start or a bug. Each class has a stable `code`; `api/problem.ts` maps them
 * to HTTP and `main.ts` to exit codes.
 */
export type LeatError = StoreUnavailable | StoreContentRefused | StartRefused;

/** The store cannot be reached or cannot write now (disk full, connection lost). HTTP 503. */
export class StoreUnavailable extends Error {
  readonly code = 'store_unavailable';
  override readonly name: string = 'StoreUnavailable';
  readonly reason: UnavailableReason;

  constructor(
    message: string,
    { reason = 'away', ...options }: ErrorOptions & { readonly reason?: UnavailableReason } = {},
  ) {
    super(message, options);
    this.reason = reason;
  }
}

/**
 * `away`: it cannot be reached, or has failed in another way. `read_only` and `full` accept reads.
 * `outdated`: see {@link StoreOutdated}.
 */
export type UnavailableReason = 'away' | 'read_only' | 'full' | 'outdated';

/** A newer version of the program has changed the schema so that this one may not use it. */
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

/** A text has a U+0000, which this store cannot hold nor look for. HTTP 400. */
export class StoreTextRefused extends StoreContentRefused {
  override readonly name = 'StoreTextRefused';
}

/** The tenant that something was to be written for is not there, or was removed meanwhile. HTTP 404. */
export class StoreTenantGone extends StoreContentRefused {
  override readonly name = 'StoreTenantGone';

  constructor(tenant: number) {
    super(`There is no tenant ${tenant}.`);
  }
}

/** The program must not start. `message` is the one line shown to the operator; exit code 1. */
export class StartRefused extends Error {
  readonly code = 'start_refused';
  override readonly name = 'StartRefused';
}

/** Another process has the file of the store: a server, or a command that ends soon. */
export class StoreInUse extends StartRefused {}

/** The code of an error of the system, such as `ENOENT`; `undefined` for any other. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}
