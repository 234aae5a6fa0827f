import { createHash } from 'node:crypto';
import type { Millis, RandomBytes } from './clock.ts';

/**
 * Returns a new id: the prefix and 22 base58 characters, 8 for the time and 14 for 80 random bits.
 * Ids made later sort later, which keeps inserts at the end of their index (random ids cut the
 * insert rate to a third). The time fits until the year 6026.
 */
export function makeId(prefix: string, now: Millis, random: RandomBytes): string {
  const bytes = random(10);
  return prefix + timeDigits(now) + digitsOf(bytes, 0) + digitsOf(bytes, 5);
}

/** Returns a new id of a role: 64 random bits as 16 hexadecimal digits. */
export function makeRoleId(random: RandomBytes): string {
  return `rol_${Buffer.from(random(8)).toString('hex')}`;
}

/** Returns the id of an event that was published with an idempotency key. */
export function keyedEventId(parts: readonly string[]): string {
  return keyedId('evt_', parts);
}

/**
 * Returns an id that derives from its parts: the prefix and 128 bits of the SHA-256 of their JSON.
 * Equal parts give equal ids. JSON distinguishes `["ab","c"]` from `["a","bc"]`, and lone surrogates
 * from each other.
 */
export function keyedId(prefix: string, parts: readonly string[]): string {
  const digest = createHash('sha256').update(JSON.stringify(parts)).digest();
  let value = digest.readBigUInt64BE(0) * 2n ** 64n + digest.readBigUInt64BE(8);
  let digits = '';
  for (let index = 0; index < 22; index += 1) {
    digits = alphabet.charAt(Number(value % 58n)) + digits;
    value /= 58n;
  }
  return prefix + digits;
}

/** Returns whether a text is an event id; any other text is an idempotency key. */
export function isEventId(text: string): boolean {
  return /^evt_[A-Za-z0-9]{22}$/.test(text);
}

/** Digits and letters without `0 I O l`, in ASCII order, so that texts sort like numbers. */
const alphabet = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';

/** The two digits of every number below 58²: halves the divisions, all of them on small integers. */
const pairs = Array.from(
  { length: 58 * 58 },
  (_, value) => alphabet.charAt(Math.floor(value / 58)) + alphabet.charAt(value % 58),
);

const span4 = 58 ** 4;

/** Returns the 8 digits of a number below 58⁸. */
function timeDigits(now: Millis): string {
  const high = Math.floor(now / span4);
  return fourDigits(high) + fourDigits(now - high * span4);
}

/** Returns 7 digits for the 5 bytes at `at`: 2⁴⁰ is below 58⁷. */
function digitsOf(bytes: Uint8Array, at: number): string {
  const value = ((byte(bytes, at) * 256 + byte(bytes, at + 1)) * 256 + byte(bytes, at + 2)) * 65536;
  const number = value + byte(bytes, at + 3) * 256 + byte(bytes, at + 4);
  const high = Math.floor(number / span4);
  return threeDigits(high) + fourDigits(number - high * span4);
}

function byte(bytes: Uint8Array, at: number): number {
  return bytes[at] ?? 0;
}

function fourDigits(value: number): string {
  const high = Math.floor(value / 3364);
  return pair(high) + pair(value - high * 3364);
}

function threeDigits(value: number): string {
  const high = Math.floor(value / 58);
  return pair(high) + alphabet.charAt(value - high * 58);
}

function pair(value: number): string {
  return pairs[value] ?? '';
}
