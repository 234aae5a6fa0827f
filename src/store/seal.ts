import { createCipheriv, createDecipheriv, createHmac } from 'node:crypto';
import type { RandomBytes } from '../core/clock.ts';
import { SealBroken, StoreUnavailable } from '../core/errors.ts';
import type { SealState } from './port/secrets.ts';
import { keyCheckPlace, type Place } from './sealed-columns.ts';

/** Keeps secrets unreadable in the database, and detects changes to them there. */
export interface Seal {
  readonly keys: KeyRing;
  /** Seals as the store's key check requires. */
  seal(text: string, place: Place, check: KeyCheck): Uint8Array;
  /**
   * Throws `SealBroken` when the bytes were made for another place, or when they are damaged;
   * `StoreUnavailable` when they name a key that this process lacks, as after a rotation that it has
   * not noticed yet.
   */
  open(sealed: Uint8Array, place: Place): string;
  /** Returns whether sealed bytes are already as the key check requires new ones to be. */
  isCurrent(sealed: Uint8Array, check: KeyCheck): boolean;
  /** Reads the key check of a store, or returns why this process must not use the store. */
  readCheck(sealed: Uint8Array): KeyCheck | { readonly problem: string };
  /** Returns the sealed form of a key check. */
  sealCheck(check: KeyCheck): Uint8Array;
}

/**
 * The state of a store's seals. Its sealing key authenticates it: it is the content of the store's
 * key check, whose own seal names the key.
 */
export type KeyCheck = SealState;

/**
 * Creates a seal with keys of 32 bytes each: AES-256-GCM (NIST SP 800-38D). A random nonce is safe
 * for 2^32 texts under one key, far more than there are secrets to store.
 *
 * A seal is `2 (1 byte) | id of the key (6) | nonce (12) | ciphertext | tag (16)` and authenticates
 * its place along with the first two parts. Programs of before 0.2.0 made `1 | nonce | ciphertext |
 * tag`, which opened anywhere: no store with such seals opens any more.
 */
export function createSeal(secretKeys: readonly Uint8Array[], random: RandomBytes): Seal {
  const keys = createKeyRing(secretKeys);
  const open = (sealed: Uint8Array, place: Place): string => {
    const bytes = bufferOf(sealed);
    const id = keyOf(bytes);
    if (id === undefined) throw broken();
    const key = keys.get(id);
    if (key === undefined) throw lackedKey(id);
    return decrypt(key, bytes.subarray(headerBytes), authenticated(id, place));
  };
  const seal = (text: string, place: Place, { key: id }: Pick<KeyCheck, 'key'>): Uint8Array => {
    const key = keys.get(id);
    if (key === undefined) throw lackedKey(id);
    return Buffer.concat([
      headerOf(id),
      encrypt(key, random(nonceBytes), text, authenticated(id, place)),
    ]);
  };
  return {
    keys,
    seal,
    open,
    isCurrent: (sealed, { key }) => keyOf(bufferOf(sealed)) === key,
    readCheck: (sealed) => {
      try {
        return readCheck(keys, bufferOf(sealed), open);
      } catch (error) {
        if (error instanceof SealBroken) return { problem: otherKey(keys) };
        throw error;
      }
    },
    sealCheck: (check) => seal(JSON.stringify({ former: check.former }), keyCheckPlace, check),
  };
}

function readCheck(
  keys: KeyRing,
  bytes: Buffer,
  open: Seal['open'],
): KeyCheck | { readonly problem: string } {
  if (bytes[0] === unbound) return { problem: notBound };
  const key = keyOf(bytes);
  if (key === undefined) return { problem: otherKey(keys) };
  if (keys.get(key) === undefined) return { problem: lacks(keys, key) };
  const check = JSON.parse(open(bytes, keyCheckPlace)) as {
    readonly former?: string;
    readonly unbound?: boolean;
  };
  if (check.unbound === true) return { problem: notBound };
  const { former } = check;
  if (former !== undefined && keys.get(former) === undefined) {
    return { problem: unfinished(keys, { key, former }) };
  }
  return { key, former };
}

// The texts continue "LEAT_SECRET_KEY: does not fit the secrets in <store>".

const notBound =
  ', of which some are not bound to their place: start it with commit a060e904, run leat secrets ' +
  'rotate there to its end, stop that and start this version';

function otherKey(keys: KeyRing): string {
  return `, set the key this store was first started with; this is ${listOf(keys)}`;
}

function lacks(keys: KeyRing, id: string): string {
  return `, which key ${id} seals: set that key; this is ${listOf(keys)}`;
}

function unfinished(keys: KeyRing, { key, former }: { key: string; former: string }): string {
  return (
    `, of which some are still sealed with key ${former}: set both keys, ${key},${former}, and run ` +
    `leat secrets rotate to its end; this is ${listOf(keys)}`
  );
}

function listOf(keys: KeyRing): string {
  return `key ${keys.ids().join(',')}`;
}

const algorithm = 'aes-256-gcm';
const nonceBytes = 12;
const tagBytes = 16;
/** Without a fixed length GCM would accept a tag cut to 4 bytes, which can be guessed. */
const options = { authTagLength: tagBytes };

/** The first byte: the version of the format. */
const unbound = 1;
const bound = 2;
/** Bytes of an id. Two keys of one store with the same id are not to be expected in 2^48. */
const keyIdBytes = 6;
const headerBytes = 1 + keyIdBytes;

function headerOf(id: string): Buffer {
  return Buffer.concat([Buffer.of(bound), Buffer.from(id, 'hex')]);
}

/** Returns what a seal authenticates besides its text. */
function authenticated(id: string, { table, tenant, row, column }: Place): Buffer {
  const place = JSON.stringify([table, tenant, row, column]);
  return Buffer.concat([headerOf(id), Buffer.from(place)]);
}

/** Returns the id of the key in a seal; `undefined` for anything else. */
function keyOf(bytes: Buffer): string | undefined {
  const isSeal = bytes[0] === bound && bytes.length >= headerBytes + nonceBytes + tagBytes;
  return isSeal ? bytes.toString('hex', 1, headerBytes) : undefined;
}

function encrypt(key: Uint8Array, nonce: Uint8Array, text: string, data: Uint8Array): Buffer {
  const cipher = createCipheriv(algorithm, key, nonce, options).setAAD(data);
  const encrypted = [nonce, cipher.update(text, 'utf8'), cipher.final()];
  return Buffer.concat([...encrypted, cipher.getAuthTag()]);
}

/** Opens `nonce | ciphertext | tag`. */
function decrypt(key: Uint8Array, bytes: Buffer, data: Uint8Array): string {
  const nonce = bytes.subarray(0, nonceBytes);
  const decipher = createDecipheriv(algorithm, key, nonce, options).setAAD(data);
  decipher.setAuthTag(bytes.subarray(-tagBytes));
  try {
    const text = decipher.update(bytes.subarray(nonceBytes, -tagBytes));
    return Buffer.concat([text, decipher.final()]).toString('utf8');
  } catch (error) {
    throw broken(error);
  }
}

function bufferOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

function lackedKey(id: string): StoreUnavailable {
  const message = `${doesNotOpen} LEAT_SECRET_KEY lacks key ${id}.`;
  return new StoreUnavailable(message, { reason: 'key' });
}

const doesNotOpen = 'A stored secret does not open.';

function broken(cause?: unknown): SealBroken {
  return new SealBroken('A stored secret does not open: another key or place, or damaged bytes.', {
    cause,
  });
}

/** The keys of LEAT_SECRET_KEY that this process has, by their ids. */
export interface KeyRing {
  /** In the order of the setting. */
  ids(): readonly string[];
  get(id: string): Uint8Array | undefined;
  /** Adds a key as the first one, unless it is there already; returns its id. */
  add(key: Uint8Array): string;
  remove(id: string): void;
}

/** Creates a ring; each key has 32 bytes, and there is at least one. */
function createKeyRing(keys: readonly Uint8Array[]): KeyRing {
  const byId = new Map<string, Uint8Array>();
  let order: readonly string[] = [];
  const put = (key: Uint8Array, place: (id: string) => readonly string[]): string => {
    if (key.length !== 32) throw new RangeError('The key of a seal has 32 bytes.');
    const id = keyIdOf(key);
    if (!byId.has(id)) order = place(id);
    byId.set(id, key);
    return id;
  };
  for (const key of keys) put(key, (id) => [...order, id]);
  if (order.length === 0) throw new RangeError('A seal requires a key.');
  return {
    ids: () => order,
    get: (id) => byId.get(id),
    add: (key) => put(key, (id) => [id, ...order]),
    remove: (id) => {
      byId.delete(id);
      order = order.filter((one) => one !== id);
    },
  };
}

/**
 * Returns the id of a key, in hexadecimal. It may be shown and stored: the key cannot be computed
 * from it.
 */
export function keyIdOf(key: Uint8Array): string {
  const digest = createHmac('sha256', key).update('id of a secret key of Leat').digest();
  return digest.subarray(0, keyIdBytes).toString('hex');
}
