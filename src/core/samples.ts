import { catalogue } from './catalogue.ts';
import { formatTime } from './date.ts';
import type { Millis } from './clock.ts';
import { databaseConnection } from './users.ts';

/** The fields of sample data that depend on the service and the time. */
export interface SampleContext {
  readonly now: Millis;
  /** LEAT_SERVICE_NAME, the provider of user ids. */
  readonly service: string;
  /** With its trailing slash; the picture is at `<issuer>avatar.svg`. */
  readonly issuer: string;
}

/**
 * Returns the `data` of a test event that was sent without any: a complete user for user types, a
 * small object for the other types of the catalogue, an empty one for any other type.
 */
export function sampleData(type: string, context: SampleContext): { object: object } {
  if (!catalogue.includes(type)) return { object: {} };
  return { object: samplesOf(context)[type] ?? {} };
}

const organizationId = { id: 'org_5mZq8Rk2Wd7Xc4Vb' };
const organization = {
  ...organizationId,
  name: 'sample-organization',
  display_name: 'Sample organization',
};
/** A reference to a group; one of a tenant belongs to no connection and to no organization. */
const groupId = { id: 'grp_5mZq8Rk2Wd7Xc4Vb', type: 'tenant' };
const connectionId = { id: 'con_5mZq8Rk2Wd7Xc4Vb' };
const connection = { ...connectionId, name: 'sample-connection', strategy: 'oidc' };
const roleId = { id: 'rol_5mZq8Rk2Wd7Xc4Vb' };
const role = { ...roleId, name: 'sample-role' };

/** Returns the `object` of every type of the catalogue, as other services and SDKs define it. */
function samplesOf(context: SampleContext): Readonly<Record<string, object>> {
  const time = formatTime(context.now);
  const deleted = { deleted_at: time };
  const user = sampleUser(context);
  const userId = { user_id: userIdOf(context) };
  const group = { ...groupId, name: 'sample-group', created_at: time };
  const changedGroup = { ...group, updated_at: time };
  const groupMember = { group: groupId, member: { member_type: 'user', id: userIdOf(context) } };
  const roleAssigned = { group: groupId, role, created_at: time };
  const roleDeleted = { group: groupId, role: roleId, ...deleted };
  const connected = { organization: organizationId, connection: connectionId };
  const member = { organization: organizationId, user: userId };
  return {
    'user.created': user,
    'user.updated': user,
    'user.deleted': { ...user, ...deleted },
    'organization.created': organization,
    'organization.updated': organization,
    'organization.deleted': organization,
    'organization.connection.added': connected,
    'organization.connection.updated': connected,
    'organization.connection.removed': connected,
    'organization.member.added': member,
    'organization.member.deleted': member,
    'organization.member.role.assigned': { ...member, role },
    'organization.member.role.deleted': { ...member, role },
    'organization.group.role.assigned': { organization: organizationId, ...roleAssigned },
    'organization.group.role.deleted': { organization: organizationId, ...roleDeleted },
    'group.created': group,
    'group.updated': changedGroup,
    'group.deleted': changedGroup,
    'group.member.added': groupMember,
    'group.member.deleted': groupMember,
    'group.role.assigned': roleAssigned,
    'group.role.deleted': roleDeleted,
    'connection.created': connection,
    'connection.updated': connection,
    'connection.deleted': connection,
  };
}

const localId = '65e1a0b2c3d4e5f60718293a';

function userIdOf({ service }: SampleContext): string {
  return `${service}|${localId}`;
}

function sampleUser(context: SampleContext): object {
  const { now, service, issuer } = context;
  const time = formatTime(now);
  return {
    user_id: userIdOf(context),
    email: 'ada@example.com',
    email_verified: true,
    username: 'ada',
    phone_number: '+15550100',
    phone_verified: false,
    name: 'Ada Lovelace',
    nickname: 'ada',
    given_name: 'Ada',
    family_name: 'Lovelace',
    picture: `${issuer}avatar.svg`,
    blocked: false,
    user_metadata: { language: 'en' },
    app_metadata: { plan: 'sample' },
    identities: [
      { connection: databaseConnection, user_id: localId, provider: service, isSocial: false },
    ],
    created_at: time,
    updated_at: time,
  };
}
