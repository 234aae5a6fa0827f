import type { Clock, RandomBytes } from '../core/clock.ts';
import type { StoreLocation } from '../core/value.ts';
import type { Store } from './port/store.ts';
import { openPostgresStore } from './postgres/store.ts';
import { openSqliteStore } from './sqlite/store.ts';

export interface StoreOptions {
  /** `LEAT_STORE` after parsing; `file` may be left out when `path` is no URI. */
  readonly location: StoreLocation | { readonly engine: 'sqlite'; readonly path: string };
  /** 32 bytes; seals the secrets that the store keeps. */
  readonly secretKey: Uint8Array;
  readonly random: RandomBytes;
  /** Leases and ages go by it where the engine has no clock of its own, and pauses do. */
  readonly clock: Clock;
  /** To PostgreSQL (`LEAT_STORE_CONNECTIONS`); 12 unless said. */
  readonly connectionsMax?: number | undefined;
  /** Puts a commit off until calls of the same turn have joined it; `setImmediate` unless said. */
  readonly defer?: ((action: () => void) => void) | undefined;
  /**
   * Hears of listeners of `watch` that throw, and of hints of other processes that cannot be heard;
   * a process warning unless said.
   */
  readonly report?: ((error: unknown) => void) | undefined;
}

/**
 * Opens the store, its schema brought up to date. Throws `StartRefused` with one line for the
 * operator when that cannot be.
 */
export async function openStore({
  location,
  defer = (action) => setImmediate(action),
  report = warn,
  connectionsMax = 12,
  ...rest
}: StoreOptions): Promise<Store> {
  if (location.engine === 'postgres') {
    return openPostgresStore(location.url, { ...rest, defer, report, connectionsMax });
  }
  const { path } = location;
  const file = 'file' in location ? location.file : path === ':memory:' ? undefined : path;
  return openSqliteStore({ path, file }, { ...rest, defer, report });
}

function warn(error: unknown): void {
  process.emitWarning(error instanceof Error ? error : String(error));
}
