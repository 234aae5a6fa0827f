import { catalogue } from './catalogue.ts';
import { formatTime } from './date.ts';
import type { Millis } from './clock.ts';
import { databaseConnection as connection } from './users.ts';

/** The fields of sample data that depend on the service and the time. */
export interface SampleFacts {
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
export function sampleData(type: string, facts: SampleFacts): { object: object } {
  if (!catalogue.includes(type)) return { object: {} };
  const [family = '', ...parts] = type.split('.');
  if (family === 'user') return { object: sampleUser(type, facts) };
  const subject = subjects[family] ?? {};
  if (parts.length === 1) return { object: subject };
  const others = parts.slice(0, -1).map((part) => [part, related(part, facts)]);
  return { object: { [family]: { id: subject['id'] }, ...Object.fromEntries(others) } };
}

const subjects: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  organization: {
    id: 'org_5mZq8Rk2Wd7Xc4Vb',
    name: 'sample-organization',
    display_name: 'Sample organization',
  },
  group: { id: 'grp_5mZq8Rk2Wd7Xc4Vb', name: 'sample-group' },
  connection: {
    id: 'con_5mZq8Rk2Wd7Xc4Vb',
    name: connection,
    strategy: 'database',
  },
};

/** Returns the second object of an event: the member of `organization.member.added`. */
function related(part: string, { service }: SampleFacts): object {
  if (part === 'member') return { user_id: `${service}|65e1a0b2c3d4e5f60718293a` };
  if (part === 'role') return { id: 'rol_5mZq8Rk2Wd7Xc4Vb', name: 'sample-role' };
  return { id: subjects[part]?.['id'] };
}

function sampleUser(type: string, { now, service, issuer }: SampleFacts): object {
  const localId = '65e1a0b2c3d4e5f60718293a';
  const time = formatTime(now);
  return {
    user_id: `${service}|${localId}`,
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
    identities: [{ connection, user_id: localId, provider: service, isSocial: false }],
    created_at: time,
    updated_at: time,
    ...(type === 'user.deleted' ? { deleted_at: time } : {}),
  };
}
