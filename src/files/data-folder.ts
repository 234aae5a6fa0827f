import { link, mkdir, open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { RandomBytes } from '../core/clock.ts';
import { codeOf, StartRefused } from '../core/errors.ts';
import { key32 } from '../core/value.ts';
import { writeWhole } from './atomic-write.ts';

const KEY_BYTES = 32;
const OWNER_ALONE = 0o600;

const names = { secretKey: 'secret.key', credentials: 'bootstrap.json' };

/**
 * The key that seals stored secrets, from `secret.key` in the folder; made there when it is missing
 * (docs/http-api.md#secret-key). Two starts at once agree on one key, and a start that is cut off leaves
 * either the whole key or none.
 *
 * Throws `StartRefused` when the folder cannot be used or the file holds something else.
 */
export async function keptSecretKey(folder: string, random: RandomBytes): Promise<Uint8Array> {
  const present = await presentSecretKey(folder);
  if (present !== undefined) return present;
  const made = `${Buffer.from(random(KEY_BYTES)).toString('base64')}\n`;
  return keyIn(folder, await keepFirst({ folder, name: names.secretKey, text: made }, random));
}

/** The key of {@link keptSecretKey}; `undefined` when there is none, and none is made. */
export async function presentSecretKey(folder: string): Promise<Uint8Array | undefined> {
  const text = await readKept(folder, names.secretKey);
  return text === undefined ? undefined : keyIn(folder, text);
}

function keyIn(folder: string, text: string): Uint8Array {
  const parsed = key32(text.trim());
  if ('value' in parsed) return parsed.value;
  const file = join(folder, names.secretKey);
  throw new StartRefused(
    `LEAT_SECRET_KEY: ${file} does not hold 32 bytes in base64; put the key back that was there`,
  );
}

/** A client and its secret, as `bootstrap.json` has them. */
export interface KeptCredentials {
  readonly clientId: string;
  readonly clientSecret: string;
}

/** Where the credentials of the first start are kept. */
export function credentialsFile(folder: string): string {
  return join(folder, names.credentials);
}

/**
 * Writes {@link credentialsFile}, in the place of a former one; only its owner can read it at any
 * moment. The credentials of the sample stand below `messages_sample` and stay when those of the
 * management client come after them. Throws `StartRefused` when the folder cannot be used.
 */
export async function keepCredentials(
  folder: string,
  { management, sample }: { management?: KeptCredentials; sample?: KeptCredentials },
  random: RandomBytes,
): Promise<void> {
  const below = sample === undefined ? await keptSample(folder) : membersOf(sample);
  const members = {
    ...(management === undefined ? {} : membersOf(management)),
    ...(below === undefined ? {} : { messages_sample: below }),
  };
  const text = `${JSON.stringify(members, undefined, 2)}\n`;
  await keep({ folder, name: names.credentials, text }, random);
}

/** The text of a file in the folder; `undefined` when there is none. */
export async function readKept(folder: string, name: string): Promise<string | undefined> {
  return usable(folder, async () => readIfThere(join(folder, name)));
}

/**
 * Writes a file in the folder, whole or not at all, in the place of a former one. Only its owner can
 * read it at any moment, unless it is `forAll` who can enter the folder.
 */
export async function keep(
  { folder, name, text, forAll = false }: KeptFile,
  random: RandomBytes,
): Promise<void> {
  const mode = forAll ? 0o644 : OWNER_ALONE;
  await usable(folder, async () => {
    await writeWhole(join(folder, name), text, { random, mode });
    await syncFolder(folder);
  });
}

/**
 * The text of a file that only its owner can read, which is `text` unless another process wrote one
 * before.
 */
export async function keepFirst(
  { folder, name, text }: Omit<KeptFile, 'forAll'>,
  random: RandomBytes,
): Promise<string> {
  const file = join(folder, name);
  return usable(folder, async () => {
    // A link never replaces a file that is there already, as a rename would.
    await writeWhole(file, text, { random, place: linkUnlessThere, mode: OWNER_ALONE });
    await syncFolder(folder);
    return readFile(file, 'utf8');
  });
}

interface KeptFile {
  readonly folder: string;
  readonly name: string;
  readonly text: string;
  readonly forAll?: boolean;
}

function membersOf({ clientId, clientSecret }: KeptCredentials): object {
  return { client_id: clientId, client_secret: clientSecret };
}

/** What is no JSON was not written here and is not kept. */
async function keptSample(folder: string): Promise<unknown> {
  const text = await readKept(folder, names.credentials);
  try {
    return text === undefined ? undefined : Object(JSON.parse(text))['messages_sample'];
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Makes the folder when it is missing; what the file system refuses is one line. */
async function usable<T>(folder: string, work: () => Promise<T>): Promise<T> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    return await work();
  } catch (error) {
    if (!(error instanceof Error && 'code' in error)) throw error;
    throw new StartRefused(
      `LEAT_STORE: the data folder ${folder} cannot be used: ${error.message}`,
      { cause: error },
    );
  }
}

async function readIfThere(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

async function linkUnlessThere(from: string, to: string): Promise<void> {
  try {
    await link(from, to);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
  }
}

/** After a power cut a store whose key lost its name could never be opened again. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
