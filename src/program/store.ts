import type { Logger } from 'pino';
import type { Config } from '../config.ts';
import type { Clock, RandomBytes } from '../core/clock.ts';
import type { StoreUnavailable } from '../core/errors.ts';
import { openStore } from '../store/open.ts';
import type { Store } from '../store/port/store.ts';
import { storeKeys } from './store-keys.ts';

export interface ServiceStoreDeps {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: RandomBytes;
  /** Receives errors that the store reports (StoreOptions.report); absent: they are dropped. */
  readonly log?: Logger;
}

/** Opens the store of the settings, with the keys of its secrets. */
export async function openServiceStore(deps: ServiceStoreDeps): Promise<Store> {
  const { config, random, clock, log } = deps;
  const { keys: secretKeys, confirm, discard } = await storeKeys(config, random);
  const report =
    log && ((error: unknown) => log.warn({ err: error }, 'the store reports an error'));
  const reportFailure =
    log &&
    ((failure: StoreUnavailable | undefined): void => {
      if (failure === undefined) log.info({}, 'the store takes appends again');
      else log.error({ err: failure }, 'the store takes no appends: publishers get 503');
    });
  const store = await openStore({
    location: config.store,
    connectionsMax: config.storeConnections,
    secretKeys,
    random,
    clock,
    report,
    reportFailure,
  }).catch(async (error: unknown) => {
    await discard();
    throw error;
  });
  try {
    await confirm();
  } catch (error) {
    await store.close();
    throw error;
  }
  return store;
}

/** Returns a clock with the time of the store, which stamped the rows whose age is compared. */
export function storeClockOf(store: Pick<Store, 'time'>, clock: Clock): Clock {
  return { ...clock, now: () => store.time.now() };
}
