import type { RandomBytes } from '../core/clock.ts';
import { StartRefused } from '../core/errors.ts';
import { keepFormerKey, readSecretKeys, writeSecretKeys } from '../files/data-folder.ts';
import type { SecretStore } from '../store/port/secrets.ts';

/** The generated keys in the data folder, and the store that they are for. */
export interface KeyFile {
  readonly folder: string;
  readonly secrets: SecretStore;
  readonly random: RandomBytes;
}

/**
 * Returns the id of the key that a rotation leads to, which the file and this process have then: a
 * new one, or that of a rotation that was interrupted.
 */
export async function prepareKeyFile({ folder, secrets, random }: KeyFile): Promise<string> {
  const { key, former } = await secrets.state();
  const stored = (await readSecretKeys(folder)) ?? [];
  // From the back, so that the first key of the file is the first one here.
  const ids = stored.toReversed().map((bytes) => secrets.addKey(bytes));
  const missing = [key, former].find((id) => id !== undefined && !ids.includes(id));
  if (missing !== undefined) {
    throw new StartRefused(
      `LEAT_SECRET_KEY: ${folder}/secret.key lacks key ${missing}, which seals stored secrets: put the file back that was there`,
    );
  }
  const target = ids.at(-1);
  if (stored.length > 1 && target !== undefined) return target;
  const created = random(32);
  // On the disk before the store uses it.
  await writeSecretKeys(folder, [created, ...stored], random);
  return secrets.addKey(created);
}

/**
 * Leaves the key `target` alone in the file. Returns the path of the file in which the former one is
 * kept, `undefined` if there was none.
 */
export async function dropFormerKey(
  { folder, secrets, random }: KeyFile,
  target: string,
): Promise<string | undefined> {
  const stored = (await readSecretKeys(folder)) ?? [];
  const keys = stored.map((key) => ({ id: secrets.addKey(key), key }));
  const former = keys.find(({ id }) => id !== target);
  if (former === undefined) return undefined;
  const path = await keepFormerKey(folder, former, random);
  await writeSecretKeys(
    folder,
    keys.filter(({ id }) => id === target).map(({ key }) => key),
    random,
  );
  secrets.removeKey(former.id);
  return path;
}
