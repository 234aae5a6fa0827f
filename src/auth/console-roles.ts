import type { ConsoleRole } from '../core/console-session.ts';
import { managementScopes } from './scopes.ts';

/** What the audit log has in place of a client for sessions of the console. */
export const consoleClientId = 'console';

/** What a role of the console may do (docs/http-api.md#console-roles). */
export interface RoleAccess {
  readonly scopes: readonly string[];
  /** The `operationId` of operations that it may call without their scope. */
  readonly operations: readonly string[];
  /** Whether payloads of events and response bodies of receivers are withheld from it. */
  readonly isWithheld: boolean;
}

const viewerScopes = ['read:event_streams', 'read:event_deliveries', 'read:logs'];

/** The access of each role. */
export const roleAccess: Readonly<Record<ConsoleRole, RoleAccess>> = {
  viewer: { scopes: viewerScopes, operations: [], isWithheld: true },
  support: {
    scopes: [...viewerScopes, 'read:events', 'update:event_deliveries'],
    // Their scope, update:event_streams, would also let it change destinations and read signing secrets.
    operations: ['pauseEventStream', 'resumeEventStream', 'sendTestEvent'],
    isWithheld: false,
  },
  operator: { scopes: managementScopes, operations: [], isWithheld: false },
};
