import type { Clock, RandomBytes } from '../core/clock.ts';
import type { StoreUnavailable } from '../core/errors.ts';
import type { StoreLocation } from '../core/value.ts';
import type { Store } from './port/store.ts';

export interface StoreOptions {
  /** `LEAT_STORE` after parsing; `file` may be absent when `path` is not a URI. */
  readonly location: StoreLocation | { readonly engine: 'sqlite'; readonly path: string };
  /**
   * The keys of LEAT_SECRET_KEY, 32 bytes each. The store says which one seals its secrets; the first
   * one does in a new store.
   */
  readonly secretKeys: readonly Uint8Array[];
  readonly random: RandomBytes;
  /** The clock of leases and ages where the engine has none of its own, and of pauses. */
  readonly clock: Clock;
  /** Connections to PostgreSQL (`LEAT_STORE_CONNECTIONS`); 13 by default. */
  readonly connectionsMax?: number | undefined;
  /**
   * Defers a commit until other calls of the same turn have joined it; `setImmediate` by default.
   */
  readonly defer?: ((action: () => void) => void) | undefined;
  /**
   * Receives errors of listeners of `watch`, outages of the hints of other processes, and errors of
   * streams whose secrets do not open; by default a process warning.
   */
  readonly report?: ((error: unknown) => void) | undefined;
  /**
   * Receives the first cause once appends have failed for some seconds, and `undefined` when they succeed
   * again.
   */
  readonly reportFailure?: ((failure: StoreUnavailable | undefined) => void) | undefined;
}

/**
 * Opens the store and migrates its schema. Throws `StartRefused` with one line for the operator
 * when it cannot.
 */
export async function openStore({
  location,
  defer = (action) => setImmediate(action),
  report = warn,
  connectionsMax = 13,
  ...rest
}: StoreOptions): Promise<Store> {
  if (location.engine === 'postgres') {
    const { openPostgresStore } = await import('./engine/postgres/store.ts');
    return openPostgresStore(location.url, { ...rest, defer, report, connectionsMax });
  }
  const { path } = location;
  const file = 'file' in location ? location.file : path === ':memory:' ? undefined : path;
  const { openSqliteStore } = await import('./engine/sqlite/store.ts');
  return openSqliteStore({ path, file }, { ...rest, defer, report });
}

function warn(error: unknown): void {
  process.emitWarning(error instanceof Error ? error : String(error));
}
