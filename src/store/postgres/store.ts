import type { Clock, RandomBytes } from '../../core/clock.ts';
import { createHints } from '../hints.ts';
import type { Hint, Store } from '../port.ts';
import { createSeal } from '../seal.ts';
import { createApiStore } from './apis.ts';
import { createClientStore } from './clients.ts';
import { createDatabase, type Database } from './database.ts';
import { makeMissingDay } from './days.ts';
import { createDeliveryStore } from './deliveries.ts';
import { createGrantStore } from './grants.ts';
import { createHosts } from './hosts.ts';
import { createKeyStore } from './keys.ts';
import { createLogStore } from './log.ts';
import { createLookStore } from './looks.ts';
import { refuseHalfMoved } from './move.ts';
import { openNotices } from './notices.ts';
import { createOwnershipStore } from './ownership.ts';
import { createReplayStore } from './replays.ts';
import { createRoleStore } from './roles.ts';
import { nameOf } from './refusal.ts';
import { prepareSchema } from './schema.ts';
import { createStreamStore } from './streams.ts';
import { createTenantStore } from './tenants.ts';
import { createUserStore } from './users.ts';

export interface PostgresStoreDeps {
  /** 32 bytes; seals the secrets in the database. */
  readonly secretKey: Uint8Array;
  readonly random: RandomBytes;
  readonly clock: Pick<Clock, 'after'>;
  /** Puts a commit off until calls of the same turn of the event loop have joined it. */
  readonly defer: (action: () => void) => void;
  /** Hears of listeners of `watch` that throw, and of hints that cannot be heard. */
  readonly report: (error: unknown) => void;
}

/** Connections of one process at most, besides the one that listens. */
const connectionsMax = 10;
const applicationName = 'leat';

/**
 * Opens a PostgreSQL database, which any number of processes may share.
 *
 * Throws `StartRefused` with one line for the operator.
 */
export async function openPostgresStore(url: string, deps: PostgresStoreDeps): Promise<Store> {
  const { defer, clock, report, random } = deps;
  const hosts = createHosts(url, applicationName);
  const db: Database = createDatabase({
    hosts,
    connectionsMax,
    mend: (error) => makeMissingDay(db, error),
  });
  const seal = createSeal(deps.secretKey, random);
  try {
    // First: the schema of a half moved store waits for its key proof.
    await refuseHalfMoved(db, nameOf(url));
    await prepareSchema(db, nameOf(url), seal);
  } catch (error) {
    await db.close();
    throw error;
  }
  const { emit, watch } = createHints({ report });
  const self = Buffer.from(random(9)).toString('base64url');
  const notices = await openNotices({ db, hosts, self, clock, heard: emit, report });
  const hint = (told: Hint): void => {
    emit(told);
    notices.tell(told);
  };
  const shared = { db, seal, hint, defer };
  const { appender, ...log } = createLogStore(shared);
  return {
    tenants: createTenantStore(shared),
    log,
    streams: createStreamStore(shared),
    deliveries: createDeliveryStore(shared),
    replays: createReplayStore(shared),
    // Who gives streams up does not look for free ones.
    ownership: createOwnershipStore({
      ...shared,
      hint: notices.tell,
      counted: notices.counted,
    }),
    keys: createKeyStore(shared),
    clients: createClientStore(shared),
    apis: createApiStore(shared),
    grants: createGrantStore(shared),
    roles: createRoleStore(shared),
    users: createUserStore(shared),
    looks: createLookStore(shared),
    watch,
    ping: async () => {
      await db.get`select 1`;
    },
    close: async () => {
      await appender.idle();
      await notices.close();
      await db.close();
    },
  };
}
