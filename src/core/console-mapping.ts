/** Who may sign in to the console through an identity provider: LEAT_CONSOLE_ROLES, docs/console.md. */
import { type ConsoleRole, consoleRoles } from './console-session.ts';
import { mailbox } from './mailbox.ts';
import { type Parse, tenantName } from './value.ts';

/** One entry of LEAT_CONSOLE_ROLES: who has this value in this claim has this role in this tenant. */
export interface ConsoleMapping {
  /** `<tenant>/<claim>:<value>`: the entry without its role; unique. */
  readonly id: string;
  readonly tenantName: string;
  readonly claim: string;
  readonly value: string;
  readonly role: ConsoleRole;
}

/** What a provider says about a person: the fields of an ID token or of its userinfo endpoint. */
export type Claims = Readonly<Record<string, unknown>>;

/** The entry as sessions have it is no longer than this. */
const idCharactersMax = 256;
const mappingsMax = 1000;

/**
 * Parses entries such as `main/groups:leat-admins=operator`, separated by commas. The name of a claim
 * may be a URL, as providers require it for claims of one's own; a value has no comma.
 */
export const consoleMappings: Parse<readonly ConsoleMapping[]> = (text) => {
  const texts = text.split(',').map((part) => part.trim());
  if (texts.length > mappingsMax) return { problem: `has more than ${mappingsMax} items` };
  const mappings = new Map<string, ConsoleMapping>();
  for (const [index, part] of texts.entries()) {
    const parsed = mappingOf(part);
    const problem = (reason: string): { problem: string } => ({
      problem: `is wrong in item ${index + 1}: it ${reason}`,
    });
    if ('problem' in parsed) return problem(parsed.problem);
    const { id } = parsed.value;
    if (mappings.has(id)) return problem('has the tenant, claim and value of an earlier item');
    mappings.set(id, parsed.value);
  }
  return { value: [...mappings.values()] };
};

const mappingOf: Parse<ConsoleMapping> = (text) => {
  const roleAt = text.lastIndexOf('=');
  if (roleAt < 0) return { problem: `does not end with =${consoleRoles.join(', =')}` };
  const role = consoleRoles.find((each) => each === text.slice(roleAt + 1));
  if (role === undefined) return { problem: `has a role that is not ${consoleRoles.join(' or ')}` };
  const id = text.slice(0, roleAt);
  const tenantEnd = id.indexOf('/');
  if (tenantEnd < 0) return { problem: 'has no tenant, which ends with /' };
  const tenant = tenantName(id.slice(0, tenantEnd));
  if ('problem' in tenant) return { problem: `has a tenant that ${tenant.problem}` };
  const condition = /^(?<claim>(?:https?:\/\/)?[^:]+):(?<value>.+)$/.exec(id.slice(tenantEnd + 1));
  const { claim, value } = condition?.groups ?? {};
  if (claim === undefined || value === undefined) {
    return { problem: 'has no claim and value with a colon between them' };
  }
  if (/[\p{C}\p{Z}]/u.test(claim)) return { problem: 'has a blank in the name of its claim' };
  if (/[\p{C}\p{Zl}\p{Zp}]/u.test(value)) return { problem: 'has control characters in its value' };
  if (id.length > idCharactersMax) {
    return { problem: `has more than ${idCharactersMax} characters before its role` };
  }
  return { value: { id, tenantName: tenant.value, claim, value, role } };
};

/**
 * Returns the mapping that a person with these claims has in a tenant, that of the most powerful role if
 * there are several, the first one among those; `undefined` when there is none.
 */
export function mappingFor(
  mappings: readonly ConsoleMapping[],
  tenant: string,
  claims: Claims,
): ConsoleMapping | undefined {
  let found: ConsoleMapping | undefined;
  for (const mapping of mappings) {
    if (mapping.tenantName !== tenant || !hasValue(claims, mapping)) continue;
    if (found === undefined || powerOf(mapping) > powerOf(found)) found = mapping;
  }
  return found;
}

/** Returns the claims that the mappings of a tenant depend on. */
export function claimsOf(mappings: readonly ConsoleMapping[], tenant: string): ReadonlySet<string> {
  const ofTenant = mappings.filter(({ tenantName: name }) => name === tenant);
  return new Set(ofTenant.map(({ claim }) => claim));
}

/** Returns the role that a mapping gives now, by its id; `undefined` when it is not in the setting. */
export type RoleOfMapping = (id: string) => ConsoleRole | undefined;

export function createRoleOfMapping(mappings: readonly ConsoleMapping[]): RoleOfMapping {
  const roles = new Map(mappings.map(({ id, role }) => [id, role]));
  return (id) => roles.get(id);
}

/** Characters of the name of a person that a session has. */
const userCharactersMax = 256;

/**
 * Returns how a person is called in lists and in the audit log: e-mail address, else user name, name or
 * subject. Such texts are often chosen by the person, so they identify nobody beyond doubt.
 */
export function userOf(claims: Claims): string {
  const email = isVerified(claims, 'email') ? claims['email'] : undefined;
  const names = [email, claims['preferred_username'], claims['name'], claims['sub']];
  const name = names.find((each): each is string => typeof each === 'string' && each !== '') ?? '?';
  // Characters that cannot be shown could hide or reorder others, and U+0000 cannot be stored.
  const shown = name.slice(0, 4 * userCharactersMax).replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, '\uFFFD');
  return Array.from(shown).slice(0, userCharactersMax).join('');
}

function hasValue(claims: Claims, { claim, value }: ConsoleMapping): boolean {
  if (!Object.hasOwn(claims, claim) || !isVerified(claims, claim)) return false;
  // One mailbox has several texts; of other claims only the same text counts.
  const form = (text: unknown): unknown =>
    claim === 'email' && typeof text === 'string' ? mailbox(text) : text;
  return [claims[claim]].flat().some((present) => form(present) === form(value));
}

/**
 * Whether a claim is not declared to be unverified (`email_verified` and `phone_number_verified`, OpenID
 * Connect Core section 5.1). Some providers write the boolean as a string; some leave it out where an
 * administrator sets the address.
 */
function isVerified(claims: Claims, claim: string): boolean {
  const verified = claims[`${claim}_verified`];
  return verified === undefined || verified === true || verified === 'true';
}

function powerOf({ role }: ConsoleMapping): number {
  return consoleRoles.indexOf(role);
}
