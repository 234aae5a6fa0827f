import type { AuditEntry } from '../../core/audit-log.ts';
import type { ClientGuard, Guard, GuardedStore } from '../port/guard.ts';
import type { Hint } from '../port/hints.ts';
import type { Seal } from '../seal.ts';
import { lockAccess } from './access-lock.ts';
import { createAlertStateStore } from './alert-state.ts';
import { createAllFailures } from './all-failures.ts';
import { createApiStore } from './apis.ts';
import { createAuditLogStore } from './audit-log.ts';
import { createCertificateStore } from './certificates.ts';
import { accessOf, createClientStore } from './clients.ts';
import { aroundChanges, type Command, type On, type Purposes, sql } from './command.ts';
import { createConsoleSessionStore, heldSession } from './console-sessions.ts';
import { createDeliveryStore } from './deliveries.ts';
import { createDeliveryStatsStore } from './delivery-stats.ts';
import { forKeyShare } from './dialect.ts';
import { createDismissalStore } from './dismissals.ts';
import { createEventLogStore } from './event-log.ts';
import { createEventTypeStore } from './event-types.ts';
import { createFailureStore, type FailureReader } from './failures.ts';
import { createGrantStore } from './grants.ts';
import { createKeyStore, type KeyStoreDeps } from './keys.ts';
import { createLagStore } from './lag.ts';
import { createOverviewStore, type OverviewDeps } from './overview.ts';
import { createOwnershipStore, type OwnershipDeps } from './ownership.ts';
import { recordingOn } from './recording.ts';
import { createRedeliveryStore } from './redeliveries.ts';
import { createReplayStore } from './replays.ts';
import { createRoleStore } from './roles.ts';
import { createSecretStore, type SecretDeps } from './secrets.ts';
import { createStreamStore, type StreamDeps } from './streams.ts';
import { createTenantStore, type TenantDeps } from './tenants.ts';
import { createUserStore, type UserDeps } from './users.ts';
import { createUpkeepCommands } from './upkeep.ts';

/**
 * The parts of the store that are written once for both engines. In all others the engines differ in
 * more than a few words of SQL: see the comments there.
 */
export type StoreCommands = ReturnType<typeof createStoreCommands>;

/** What an engine provides for them. */
export interface CommandDeps extends On {
  readonly seal: Seal;
  readonly hint: (hint: Hint) => void;
  readonly report: KeyStoreDeps['report'];
  readonly removals: TenantDeps['removals'];
  readonly engine: OverviewDeps['engine'];
  readonly readCache: StreamDeps['readCache'];
  readonly failures: FailureReader;
  readonly defer: StreamDeps['defer'];
  readonly countMax: StreamDeps['countMax'];
  readonly liveNodes?: SecretDeps['liveNodes'];
  readonly ofNodes: OwnershipDeps['ofNodes'];
  readonly userChanges: UserDeps['userChanges'];
}

export function createStoreCommands(deps: CommandDeps) {
  return {
    tenants: createTenantStore(deps),
    keys: createKeyStore(deps, 'signing_keys'),
    webhookKeys: createKeyStore(deps, 'webhook_keys'),
    secrets: createSecretStore(deps),
    clients: createClientStore(deps),
    apis: createApiStore(deps),
    grants: createGrantStore(deps),
    roles: createRoleStore(deps),
    users: createUserStore(deps),
    auditLog: createAuditLogStore(deps),
    consoleSessions: createConsoleSessionStore(deps),
    alertState: createAlertStateStore(deps),
    deliveryStats: createDeliveryStatsStore(deps),
    eventTypes: createEventTypeStore(deps),
    overview: createOverviewStore(deps),
    ownership: createOwnershipStore(deps),
    streams: createStreamStore(deps),
    dismissals: createDismissalStore(deps),
    eventLog: createEventLogStore(deps),
    failures: createAllFailures(deps),
    redeliveries: createRedeliveryStore(deps),
    replays: createReplayStore(deps),
    upkeep: {
      ...createUpkeepCommands(deps),
      ...createLagStore(deps),
      ...createCertificateStore(deps),
    },
    deliveries: { ...createDeliveryStore(deps), ...createFailureStore(deps) },
  };
}

/** Creates the same parts, whose changes record this entry (see recording.ts). */
export function createRecordingCommands(deps: CommandDeps, entry: AuditEntry): StoreCommands {
  return createStoreCommands({
    ...deps,
    on: recordingOn(deps.on, entry),
  });
}

/** Creates the changes of what clients may do, each with this guard and entry in its transaction. */
export function createGuardedCommands(
  { on, hint }: Pick<CommandDeps, 'on' | 'hint'>,
  guard: Guard,
  entry: AuditEntry | undefined,
): GuardedStore {
  const changing = entry === undefined ? on : recordingOn(on, entry);
  const deps = { on: guardedOn(changing, guard), hint };
  return {
    clients: createClientStore(deps),
    grants: createGrantStore(deps),
    roles: createRoleStore(deps),
  };
}

/**
 * Returns connections whose changes call the guard in each transaction, before anything is changed. Changes of
 * the access of a tenant's clients follow each other, so that one which is committed after a
 * revocation also sees it.
 */
function guardedOn(on: Purposes, guard: Guard): Purposes {
  return aroundChanges(on, (command) => guarded(command, guard));
}

function* guarded<T>(command: () => Command<T>, guard: Guard): Command<T> {
  const { tenant } = guard;
  yield* lockAccess(tenant);
  if (guard.session !== undefined) guard.check(yield* heldSession(tenant, guard.session));
  else guard.check(yield* accessOf(tenant, guard.client), yield* isSigned(guard));
  return yield* command();
}

/** A key that is found stays until the commit. */
function* isSigned({ tenant, signedWith }: ClientGuard): Command<boolean> {
  if (signedWith === undefined) return true;
  const key = yield* sql.get`
    select 1 from signing_keys where tenant = ${tenant} and kid = ${signedWith} ${forKeyShare}`;
  return key !== undefined;
}
