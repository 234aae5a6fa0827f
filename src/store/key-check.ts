import { StartRefused, StoreUnavailable } from '../core/errors.ts';
import type { KeyCheck, Seal } from './seal.ts';

/** The row `key_check` of a store. */
export interface KeyCheckRow {
  readonly sealed: Uint8Array;
}

/** The key check of a new store: the first key seals. */
export function firstKeyCheck({ keys }: Seal): KeyCheck {
  const [key = ''] = keys.ids();
  return { key, former: undefined };
}

/**
 * Returns the key check of a store that is opened. Throws `StartRefused` unless this process has
 * the keys that the store needs.
 */
export function passedKeyCheck(name: string, seal: Seal, row: KeyCheckRow | undefined): KeyCheck {
  const check = row === undefined ? { problem: '' } : seal.readCheck(row.sealed);
  if ('problem' in check) {
    throw new StartRefused(`LEAT_SECRET_KEY: does not fit the secrets in ${name}${check.problem}`);
  }
  return check;
}

/**
 * Throws `StartRefused` where {@link passedKeyCheck} does. The store may lack the row: no start has
 * got so far.
 */
export function checkFormer(name: string, seal: Seal, row: KeyCheckRow | undefined): void {
  if (row !== undefined) passedKeyCheck(name, seal, row);
}

/** Does the same for a store in use, which may have changed since: throws `StoreUnavailable`. */
export function currentKeyCheck(seal: Seal, row: KeyCheckRow | undefined): KeyCheck {
  if (row === undefined) {
    throw new StoreUnavailable(
      'The key check of the store is missing: a restore may be under way.',
    );
  }
  const check = seal.readCheck(row.sealed);
  if ('problem' in check) throw lacksKey(check.problem);
  return check;
}

/**
 * Returns the reason for which this process must stop using the store: another process has changed
 * the key, and this one lacks the new key.
 */
export function lackedKey(seal: Seal, row: KeyCheckRow | undefined): StoreUnavailable | undefined {
  // Its absence is noticed by the commands that need it.
  if (row === undefined) return undefined;
  const check = seal.readCheck(row.sealed);
  return 'problem' in check ? lacksKey(check.problem) : undefined;
}

function lacksKey(problem: string): StoreUnavailable {
  const message = `LEAT_SECRET_KEY: does not fit the secrets in the store any more${problem}`;
  return new StoreUnavailable(message, { reason: 'key' });
}
