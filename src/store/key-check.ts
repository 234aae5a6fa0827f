import { StartRefused } from '../core/errors.ts';
import { SealBroken, type Seal } from './seal.ts';

/** What a store of a first start seals, and every later start opens. */
export const keyCheck = 'Leat';

/** Throws `StartRefused` unless the secret key is the one that sealed the proof. */
export function passesKeyCheck(name: string, seal: Seal, sealed: Uint8Array | undefined): void {
  if (sealed !== undefined && opensCheck(seal, sealed)) return;
  throw new StartRefused(
    `LEAT_SECRET_KEY: does not fit the secrets in ${name}, set the key this store was first started with`,
  );
}

/** Whether the key is the one that sealed the proof. */
function opensCheck(seal: Seal, sealed: Uint8Array): boolean {
  try {
    return seal.open(sealed) === keyCheck;
  } catch (error) {
    if (error instanceof SealBroken) return false;
    throw error;
  }
}
