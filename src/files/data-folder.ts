import { createHash } from 'node:crypto';
import { link, mkdir, readFile, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { RandomBytes } from '../core/clock.ts';
import { codeOf, StartRefused } from '../core/errors.ts';
import { keys32 } from '../core/value.ts';
import { syncPath, writeAtomically } from './atomic-write.ts';
import { removeMadeFolders } from './made-folders.ts';

const KEY_BYTES = 32;
const OWNER_ONLY = 0o600;

const names = {
  secretKey: 'secret.key',
  preparedKey: 'secret.key.new',
  credentials: 'bootstrap.json',
};

/**
 * Returns the keys of stored secrets, from `secret.key` in the folder; `undefined` when there is none
 * (docs/http-api.md#secret-key). Throws `StartRefused` when the file has no key or cannot be read.
 */
export async function readSecretKeys(folder: string): Promise<readonly Uint8Array[] | undefined> {
  return readKeys(folder, names.secretKey);
}

/** Returns the key of a first start that did not end; `undefined` when there is none. */
export async function readPreparedKeys(folder: string): Promise<readonly Uint8Array[] | undefined> {
  return readKeys(folder, names.preparedKey);
}

/** A key that is to become that of a new store. */
export interface PreparedKeys {
  readonly keys: readonly Uint8Array[];
  /** Removes the file of the key and the folders of the call, unless another start made them. */
  readonly discard: () => Promise<void>;
}

/**
 * Creates the key of a new store, which {@link confirmSecretKeys} gives its name. Concurrent starts agree
 * on one key, and an interrupted start leaves either the complete key or none.
 *
 * Throws `StartRefused` when the folder cannot be used or the file has no key.
 */
export async function prepareSecretKeys(
  folder: string,
  random: RandomBytes,
): Promise<PreparedKeys> {
  const name = names.preparedKey;
  const [file, text] = [join(folder, name), textOf([random(KEY_BYTES)])];
  const first = await refusing(folder, () => makeFolder(folder));
  const present = await createDataFile({ folder, name, text }, random);
  return {
    keys: keysIn(file, present),
    discard: async () => {
      if (present !== text) return;
      await rm(file, { force: true });
      removeMadeFolders(first, folder);
    },
  };
}

function makeFolder(folder: string): Promise<string | undefined> {
  return mkdir(folder, { recursive: true, mode: 0o700 });
}

/** Moves the key of {@link prepareSecretKeys} to `secret.key`; never replaces a key. */
export async function confirmSecretKeys(folder: string): Promise<void> {
  const [prepared, file] = [join(folder, names.preparedKey), join(folder, names.secretKey)];
  await inFolder(folder, async () => {
    // There already when another start used the same key and was faster.
    if ((await readIfPresent(file)) === undefined) await linkIfAbsent(prepared, file);
    await syncPath(folder);
    await rm(prepared, { force: true });
  });
}

/** Replaces the keys of {@link readSecretKeys}; they are on the disk afterwards. */
export async function writeSecretKeys(
  folder: string,
  keys: readonly Uint8Array[],
  random: RandomBytes,
): Promise<void> {
  await writeDataFile({ folder, name: names.secretKey, text: textOf(keys) }, random);
}

/**
 * Keeps a key that `secret.key` has no longer, in a file with its id; returns the path. Throws
 * `StartRefused` when the file has another text: the key would be lost.
 */
export async function keepFormerKey(
  folder: string,
  { id, key }: { readonly id: string; readonly key: Uint8Array },
  random: RandomBytes,
): Promise<string> {
  const name = `${names.secretKey}.${id}`;
  const [text, path] = [textOf([key]), join(folder, name)];
  const kept = await createDataFile({ folder, name, text }, random);
  if (kept.trim() === text.trim()) return path;
  throw new StartRefused(
    `LEAT_SECRET_KEY: ${path} does not hold key ${id}: move it away, then run leat secrets rotate again`,
  );
}

function textOf(keys: readonly Uint8Array[]): string {
  return `${keys.map((key) => Buffer.from(key).toString('base64')).join(',')}\n`;
}

async function readKeys(folder: string, name: string): Promise<readonly Uint8Array[] | undefined> {
  const text = await readDataFile(folder, name);
  return text === undefined ? undefined : keysIn(join(folder, name), text);
}

function keysIn(file: string, text: string): readonly Uint8Array[] {
  const parsed = keys32(text.trim());
  if ('value' in parsed) return parsed.value;
  throw new StartRefused(
    `LEAT_SECRET_KEY: ${file} does not hold 32 bytes in base64; put the key back that was there`,
  );
}

/** A client and its secret in `bootstrap.json`. */
export interface StoredCredentials {
  readonly clientId: string;
  readonly clientSecret: string;
}

/** Returns the path of the file with the generated keys. */
export function secretKeyFile(folder: string): string {
  return join(folder, names.secretKey);
}

/** Returns the path of the file with the credentials of the first start. */
export function credentialsFile(folder: string): string {
  return join(folder, names.credentials);
}

/**
 * Writes {@link credentialsFile}; only its owner can read it at any time. The credentials of the sample are
 * in `messages_sample` and stay when those of the management client are added. What else the file had is
 * kept by {@link keepFormer}, unless it is the management client that the new one `replaces`. Throws
 * `StartRefused` when the folder cannot be used.
 */
export async function writeCredentials(
  folder: string,
  { management, sample, replaces }: CredentialsChange,
  random: RandomBytes,
): Promise<void> {
  const { messages_sample: formerSample } = fieldsIn(await readDataFile(folder, names.credentials));
  const sampleFields = sample === undefined ? formerSample : fieldsOf(sample);
  const fields = {
    ...(management === undefined ? {} : fieldsOf(management)),
    ...(sampleFields === undefined ? {} : { messages_sample: sampleFields }),
  };
  const text = `${JSON.stringify(fields, undefined, 2)}\n`;
  await keepFormer(folder, names.credentials, random, (former) => {
    const { client_id: id, messages_sample: kept, ...rest } = fieldsIn(former);
    const isKnown = id === undefined ? kept !== undefined : id === replaces;
    return isKnown && (kept === undefined || sample === undefined) && isSecretAlone(rest);
  });
  await writeDataFile({ folder, name: names.credentials, text }, random);
}

export interface CredentialsChange {
  readonly management?: StoredCredentials;
  readonly sample?: StoredCredentials;
  /** Id of a management client whose secret ends with this change. */
  readonly replaces?: string | undefined;
}

function isSecretAlone(rest: object): boolean {
  return Object.keys(rest).every((name) => name === 'client_secret');
}

/**
 * Copies a file that is about to be replaced to `<name>.<hash>`, unless it is missing, blank or
 * `isDispensable`: nobody else may have what is in it.
 */
export async function keepFormer(
  folder: string,
  name: string,
  random: RandomBytes,
  isDispensable: (text: string) => boolean = () => false,
): Promise<void> {
  const text = await readDataFile(folder, name);
  if (text === undefined || text.trim() === '' || isDispensable(text)) return;
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 16);
  await createDataFile({ folder, name: `${name}.${hash}`, text }, random);
}

/** Returns the id of the management client in {@link credentialsFile}; `undefined` when it has none. */
export async function storedClientId(folder: string): Promise<string | undefined> {
  const { client_id: id } = fieldsIn(await readDataFile(folder, names.credentials));
  return typeof id === 'string' ? id : undefined;
}

/** Reads a file in the folder; `undefined` when there is none. Does not create the folder. */
export async function readDataFile(folder: string, name: string): Promise<string | undefined> {
  return refusing(folder, () => readIfPresent(join(folder, name)));
}

/**
 * Writes a file in the folder atomically, replacing an existing one. Only its owner can read it at any
 * time, unless it is `forAll` users that can enter the folder.
 */
export async function writeDataFile(
  { folder, name, text, forAll = false }: DataFile,
  random: RandomBytes,
): Promise<void> {
  const mode = forAll ? 0o644 : OWNER_ONLY;
  await inFolder(folder, async () => {
    await writeAtomically(join(folder, name), text, { random, mode, isOfFolderOwner: true });
    // A store whose key disappeared in a power cut could never be opened again.
    await syncPath(folder);
  });
}

/**
 * Creates a file that only its owner can read. Returns its text, which is another one when another
 * process has created the file before.
 */
export async function createDataFile(
  { folder, name, text }: Omit<DataFile, 'forAll'>,
  random: RandomBytes,
): Promise<string> {
  const file = join(folder, name);
  return inFolder(folder, async () => {
    // A link never replaces an existing file, as a rename would.
    await writeAtomically(file, text, {
      random,
      move: linkIfAbsent,
      mode: OWNER_ONLY,
      isOfFolderOwner: true,
    });
    await syncPath(folder);
    return readFile(file, 'utf8');
  });
}

interface DataFile {
  readonly folder: string;
  readonly name: string;
  readonly text: string;
  readonly forAll?: boolean;
}

function fieldsOf({ clientId, clientSecret }: StoredCredentials): object {
  return { client_id: clientId, client_secret: clientSecret };
}

/** Returns no fields for text that is not JSON: it was not written here. */
function fieldsIn(text: string | undefined): Readonly<Record<string, unknown>> {
  try {
    return Object(JSON.parse(text ?? '{}')) as Record<string, unknown>;
  } catch {
    return {};
  }
}

/** Runs work in the folder, which it creates when it is missing. */
async function inFolder<T>(folder: string, work: () => Promise<T>): Promise<T> {
  return refusing(folder, async () => {
    await makeFolder(folder);
    return work();
  });
}

/** Throws a file system error of work in the folder as a `StartRefused` of one line. */
async function refusing<T>(folder: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Error && 'code' in error)) throw error;
    throw new StartRefused(
      `LEAT_STORE: the data folder ${resolve(folder)} cannot be used (${error.message}): let this user write there, or name a file in another folder, for example LEAT_STORE=sqlite:/var/lib/leat/leat.db`,
      { cause: error },
    );
  }
}

async function readIfPresent(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

async function linkIfAbsent(from: string, to: string): Promise<void> {
  try {
    await link(from, to);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
  }
}
