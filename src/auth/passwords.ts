import { argon2 } from 'node:crypto';
import { promisify } from 'node:util';
import type { RandomBytes } from '../core/clock.ts';
import { userEmail } from '../core/mailbox.ts';
import { commonPasswords } from './common-passwords.ts';

const LENGTH_MIN = 8;
const LENGTH_MAX = 256;

/** The second recommended setting of OWASP's password storage cheat sheet: 19 MiB, 2 passes. */
const MEMORY_KIB = 19 * 1024;
const PASSES = 2;
const PARALLELISM = 1;
const SALT_BYTES = 16;
const TAG_BYTES = 32;

/**
 * Returns whether a password is too weak: shorter than 8 or longer than 256 characters, the e-mail
 * address, or a common password. The case of letters is ignored.
 */
export function isWeak(password: string, email: string): boolean {
  // A character has at most two UTF-16 units; counting the characters of a huge text is slow.
  if (password.length > 2 * LENGTH_MAX) return true;
  const length = Array.from(password).length;
  if (length < LENGTH_MIN || length > LENGTH_MAX) return true;
  const plain = password.toLowerCase();
  return userEmail(plain) === userEmail(email) || commonPasswords.has(plain);
}

/** Returns the argon2id hash of a password, in PHC string form. */
export type HashPassword = (password: string) => Promise<string>;

/** Creates the hasher: it runs in the thread pool and salts each hash. */
export function createPasswordHasher({ random }: { readonly random: RandomBytes }): HashPassword {
  return async (password) => hash(password, random(SALT_BYTES));
}

const argon2Async = promisify(argon2);

/** RFC 9106; the form is that of the PHC string format specification. */
async function hash(password: string, salt: Uint8Array): Promise<string> {
  const tag = await argon2Async('argon2id', {
    // One password can be typed as several sequences of code points (RFC 8265 section 4.2.1).
    message: password.normalize('NFC'),
    nonce: salt,
    memory: MEMORY_KIB,
    passes: PASSES,
    parallelism: PARALLELISM,
    tagLength: TAG_BYTES,
  });
  const costs = `m=${MEMORY_KIB},t=${PASSES},p=${PARALLELISM}`;
  return `$argon2id$v=19$${costs}$${base64(salt)}$${base64(tag)}`;
}

function base64(bytes: Uint8Array): string {
  return bytes.toBase64({ omitPadding: true });
}
