import type { Ed25519Jwk } from '../auth/key-use.ts';
import type { Keyring } from '../auth/keys.ts';
import type { Clock, RandomBytes } from '../core/clock.ts';
import type { InspectorMemory } from '../core/inspector.ts';
import type { Log } from '../core/log.ts';
import type { Pulls } from '../pull/pulls.ts';
import type { Store } from '../store/port/store.ts';
import { actionOperations } from './actions.ts';
import { alertTestOperations } from './alert-test.ts';
import { apiOperations } from './apis.ts';
import { auditLogOperations } from './audit-log.ts';
import { clientOperations } from './clients.ts';
import { deliveryOperations } from './deliveries.ts';
import { deliveryStatsOperations } from './delivery-stats.ts';
import { dismissalOperations } from './dismissals.ts';
import type { EventBodies } from './event-bodies.ts';
import { eventTypeOperations } from './event-types.ts';
import { eventOperations, type Publish } from './events.ts';
import { eventLogOperations } from './event-log.ts';
import type { FailureSteps } from './failure-steps.ts';
import { failureOperations } from './failures.ts';
import { filterTestOperations } from './filter-test.ts';
import { grantOperations } from './grants.ts';
import type { HealthCaches } from './health-caches.ts';
import type { NodeFacts } from './node-facts.ts';
import { nodeSettingOperations } from './node-settings.ts';
import { nodeOperations } from './nodes.ts';
import type { Operation } from './operation.ts';
import type { OperatorsDeps } from './operators.ts';
import { overviewOperations } from './overview.ts';
import { pauseOperations } from './pauses.ts';
import { pullOperations } from './pull.ts';
import { receivedOperations } from './received.ts';
import { redeliveryOperations } from './redeliveries.ts';
import { replayOperations } from './replays.ts';
import { roleMemberOperations } from './role-members.ts';
import { roleOperations } from './roles.ts';
import type { ApiSettings } from './settings.ts';
import { signingSecretOperations } from './signing-secret.ts';
import { skippedOperations } from './skipped.ts';
import { statsOperations } from './stats.ts';
import { healthListOperations } from './stream-health-list.ts';
import { streamOperations } from './streams.ts';
import { testOperations } from './test-events.ts';
import { userOperations } from './users.ts';

/** Dependencies of the handlers of operations. */
export interface OperationDeps extends HealthCaches, OperatorsDeps {
  readonly store: Store;
  readonly clock: Pick<Clock, 'after' | 'elapsedMs' | 'now'>;
  readonly random: RandomBytes;
  readonly log: Pick<Log, 'error' | 'warn'>;
  readonly settings: ApiSettings;
  readonly inspector: InspectorMemory;
  readonly webhookKeyring: Pick<Keyring<Ed25519Jwk>, 'jwks'>;
  /** The name of this node; absent where no other node can have the store. */
  readonly nodeId: string | undefined;
  readonly node: NodeFacts;
  readonly version: string;
  readonly pulls: Pulls;
  readonly eventBodies: EventBodies;
  readonly publish: Publish;
  readonly failureSteps: FailureSteps;
}

/** Returns every operation of the management API, in the order of the reference. */
export function allOperations(deps: OperationDeps): Operation[] {
  return [
    ...streamOperations(deps),
    ...signingSecretOperations(deps),
    ...testOperations(deps),
    ...receivedOperations(deps),
    ...filterTestOperations(deps),
    ...pauseOperations(deps),
    ...skippedOperations(deps),
    ...statsOperations(deps),
    ...healthListOperations(deps),
    ...overviewOperations(deps),
    ...deliveryStatsOperations(deps),
    ...deliveryOperations(deps),
    ...failureOperations(deps),
    ...redeliveryOperations(deps),
    ...dismissalOperations(deps),
    ...replayOperations(deps),
    ...eventOperations(deps),
    ...eventLogOperations(deps),
    ...eventTypeOperations(deps),
    ...pullOperations(deps),
    ...userOperations(deps),
    ...clientOperations(deps),
    ...apiOperations(deps),
    ...grantOperations(deps),
    ...roleOperations(deps),
    ...roleMemberOperations(deps),
    ...auditLogOperations(deps),
    ...nodeOperations(deps),
    ...nodeSettingOperations(deps),
    ...alertTestOperations(deps),
    ...actionOperations(),
  ];
}

/** Returns every operation without dependencies: its description can be read, its handler not called. */
export function describedOperations(): Operation[] {
  return allOperations({ store: {}, settings: { limits: {} } } as OperationDeps);
}
