import { StartRefused } from '../core/errors.ts';
import { SealBroken, type Seal } from './seal.ts';

/** The text that the first start of a store seals and every later start opens. */
export const keyCheck = 'Leat';

/** Throws `StartRefused` unless the secret key is the one that sealed the text. */
export function passesKeyCheck(name: string, seal: Seal, sealed: Uint8Array | undefined): void {
  if (sealed !== undefined && opensCheck(seal, sealed)) return;
  throw new StartRefused(
    `LEAT_SECRET_KEY: does not fit the secrets in ${name}, set the key this store was first started with`,
  );
}

/** Returns whether the key is the one that sealed the text. */
function opensCheck(seal: Seal, sealed: Uint8Array): boolean {
  try {
    return seal.open(sealed) === keyCheck;
  } catch (error) {
    if (error instanceof SealBroken) return false;
    throw error;
  }
}
