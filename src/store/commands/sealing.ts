import { currentKeyCheck, type KeyCheckRow } from '../key-check.ts';
import type { KeyCheck, Seal } from '../seal.ts';
import type { Place } from '../sealed-columns.ts';
import { type Command, type Reads, sql, type Statement } from './command.ts';
import { forShare } from './dialect.ts';

/**
 * Reads which key seals, and how. Until the commit no rotation changes that, so what the
 * transaction seals is sealed as the store says at its commit.
 */
export function sealingRow(): Statement<KeyCheckRow | undefined> {
  return sql.get`select sealed from key_check where id = 1 ${forShare}`;
}

/**
 * Reads the key check without a lock. Throws `StoreUnavailable` if this process lacks a key of the
 * store: then values that do not open here are not damaged.
 */
export function* presentCheck(seal: Seal): Command<KeyCheck> {
  const row = yield* sql.get<KeyCheckRow>`select sealed from key_check where id = 1`;
  return currentKeyCheck(seal, row);
}

/**
 * Returns what `open` returns, after reporting the errors of values that do not open. Throws
 * `StoreUnavailable` instead if this process lacks a key of the store.
 */
export async function openAll<T>(
  deps: {
    readonly commands: Reads;
    readonly seal: Seal;
    readonly report: (error: unknown) => void;
  },
  open: (broken: (error: unknown) => void) => T | Promise<T>,
): Promise<T> {
  const errors: unknown[] = [];
  const opened = await open((error) => errors.push(error));
  if (errors.length > 0) await deps.commands.read(presentCheck(deps.seal));
  errors.forEach(deps.report);
  return opened;
}

/** Returns a function that seals as the row of {@link sealingRow} says. */
export function sealerOf(
  seal: Seal,
  row: KeyCheckRow | undefined,
): (text: string, place: Place) => Uint8Array {
  const check = currentKeyCheck(seal, row);
  return (text, place) => seal.seal(text, place, check);
}
