import type { Logger } from 'pino';
import { type Config, dataFolderOf } from '../config.ts';
import type { Clock, RandomBytes } from '../core/clock.ts';
import { loadOrCreateSecretKey } from '../files/data-folder.ts';
import { openStore } from '../store/open.ts';
import type { Store } from '../store/port/store.ts';

export interface ServiceStoreDeps {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: RandomBytes;
  /** Receives errors of the store's hints; absent: they are dropped. */
  readonly log?: Logger;
}

/** Opens the store of the settings, with the key that seals its secrets. */
export async function openServiceStore(deps: ServiceStoreDeps): Promise<Store> {
  const { config, random, clock, log } = deps;
  const secretKey = config.secretKey ?? (await generatedSecretKey(config, random));
  const report = log && ((error: unknown) => log.warn({ err: error }, 'hints of the store'));
  return openStore({
    location: config.store,
    connectionsMax: config.storeConnections,
    secretKey,
    random,
    clock,
    report,
  });
}

/** Returns the key in the data folder and creates it on the first start; SQLite only. */
async function generatedSecretKey(config: Config, random: RandomBytes): Promise<Uint8Array> {
  if (config.store.engine === 'sqlite' && config.store.file === undefined) return random(32);
  return loadOrCreateSecretKey(dataFolderOf(config), random);
}

/** Returns a clock with the time of the store, which stamped the rows whose age is compared. */
export function storeClockOf(store: Pick<Store, 'time'>, clock: Clock): Clock {
  return { ...clock, now: () => store.time.now() };
}
