import { createCipheriv, createDecipheriv } from 'node:crypto';
import type { RandomBytes } from '../core/clock.ts';

/** Keeps secrets unreadable in the database, and detects changes to them there. */
export interface Seal {
  seal(text: string): Uint8Array;
  /** Throws `SealBroken` when the bytes were made with another key, or are damaged. */
  open(sealed: Uint8Array): string;
}

/** A sealed secret cannot be opened. The message has no part of it. */
export class SealBroken extends Error {
  override readonly name = 'SealBroken';
}

/**
 * Creates a seal with `key`, 32 bytes: AES-256-GCM (NIST SP 800-38D). The sealed form is `version
 * (1 byte) | nonce (12) | ciphertext | tag (16)`. A random nonce is safe for 2^32 texts under one
 * key, far more than there are secrets to store.
 */
export function createSeal(key: Uint8Array, random: RandomBytes): Seal {
  if (key.length !== 32) throw new RangeError('The key of a seal has 32 bytes.');
  return {
    seal: (text) => {
      const nonce = random(nonceBytes);
      const cipher = createCipheriv(algorithm, key, nonce, options).setAAD(header);
      const sealed = [header, nonce, cipher.update(text, 'utf8'), cipher.final()];
      return Buffer.concat([...sealed, cipher.getAuthTag()]);
    },
    open: (sealed) => {
      const bytes = Buffer.from(sealed.buffer, sealed.byteOffset, sealed.byteLength);
      if (bytes[0] !== version || bytes.length < 1 + nonceBytes + tagBytes) throw broken();
      const nonce = bytes.subarray(1, 1 + nonceBytes);
      const decipher = createDecipheriv(algorithm, key, nonce, options).setAAD(header);
      decipher.setAuthTag(bytes.subarray(-tagBytes));
      try {
        const text = decipher.update(bytes.subarray(1 + nonceBytes, -tagBytes));
        return Buffer.concat([text, decipher.final()]).toString('utf8');
      } catch (error) {
        throw broken(error);
      }
    },
  };
}

const algorithm = 'aes-256-gcm';
const nonceBytes = 12;
const tagBytes = 16;
/** Without a fixed length GCM would accept a tag cut to 4 bytes, which can be guessed. */
const options = { authTagLength: tagBytes };
/** The version of the format, so that another algorithm can follow; authenticated like the text. */
const version = 1;
const header = Uint8Array.of(version);

function broken(cause?: unknown): SealBroken {
  return new SealBroken('A stored secret does not open: another key, or damaged bytes.', { cause });
}
