/** Who may sign in to the console through an identity provider: LEAT_CONSOLE_ROLES, docs/console.md. */
import { type ConsoleRole, consoleRoles } from './console-session.ts';
import {
  claimPath,
  type ClaimPath,
  type Claims,
  fieldOf,
  isObject,
  nameOfPath,
} from './claim-path.ts';
import { mailbox } from './mailbox.ts';
import { type Parse, type Parsed, tenantName } from './value.ts';

/** One entry of LEAT_CONSOLE_ROLES: who has this value in this claim has this role in this tenant. */
export interface ConsoleMapping {
  /** `<tenant>/<claim>:<value>`: the entry without its role; unique. */
  readonly id: string;
  readonly tenantName: string;
  readonly claim: ClaimPath;
  readonly value: string;
  readonly role: ConsoleRole;
}

/** The entry as sessions have it is no longer than this. */
const idCharactersMax = 256;
const mappingsMax = 1000;

/**
 * Parses entries such as `main/groups:leat-admins=operator`, separated by commas. The claim is a name, a
 * name in quotation marks or a JSON pointer (docs/console.md#names-of-claims); a value has no comma.
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
  if (id.length > idCharactersMax) {
    return { problem: `has more than ${idCharactersMax} characters before its role` };
  }
  const condition = conditionOf(id.slice(tenantEnd + 1), tenant.value);
  if ('problem' in condition) return condition;
  const { name, value } = condition.value;
  if (/[\p{C}\p{Z}]/u.test(name)) return { problem: 'has a blank in the name of its claim' };
  if (/[\p{C}\p{Zl}\p{Zp}]/u.test(value)) return { problem: 'has control characters in its value' };
  const claim = claimPath(name);
  if (claim === undefined) return { problem: 'has a JSON pointer with a ~ that is not ~0 or ~1' };
  return {
    value: { id: idOf(tenant.value, name, value), tenantName: tenant.value, claim, value, role },
  };
};

interface Condition {
  readonly name: string;
  readonly value: string;
}

/**
 * Splits `<claim>:<value>`. Without quotation marks only one colon may be where the claim could end: a
 * claim such as `cognito:groups` would otherwise be taken for another one, which nobody has.
 */
function conditionOf(text: string, tenant: string): Parsed<Condition> {
  const missing = { problem: 'has no claim and value with a colon between them' };
  if (text.startsWith('"')) {
    const { name, value } = /^"(?<name>[^"]+)":(?<value>.+)$/.exec(text)?.groups ?? {};
    if (name !== undefined && value !== undefined) return { value: { name, value } };
    return { problem: 'has no claim in quotation marks, colon and value: "<claim>":<value>' };
  }
  const { scheme = '', rest = '' } =
    /^(?<scheme>https?:\/\/)?(?<rest>.*)$/s.exec(text)?.groups ?? {};
  const at = (colon: number): Condition => ({
    name: `${scheme}${rest.slice(0, colon)}`,
    value: rest.slice(colon + 1),
  });
  const [first, last] = [rest.indexOf(':'), rest.lastIndexOf(':')];
  if (first <= 0 || last === rest.length - 1) return missing;
  if (first === last) return { value: at(first) };
  const ways = [at(last), at(first)].map(({ name, value }) => `${tenant}/"${name}":${value}`);
  return {
    problem: `can mean several claims, as it has several colons: write ${ways.join(' or ')}`,
  };
}

/** Returns the entry without its role in one spelling: with quotation marks where it has several colons. */
function idOf(tenant: string, name: string, value: string): string {
  const isPlain = !`${name}${value}`.replace(/^https?:\/\//, '').includes(':');
  return `${tenant}/${isPlain ? name : `"${name}"`}:${value}`;
}

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

/** Returns the claims that the mappings of a tenant depend on; of those in others, the outermost. */
export function claimsOf(mappings: readonly ConsoleMapping[], tenant: string): ReadonlySet<string> {
  const ofTenant = mappings.filter(({ tenantName: name }) => name === tenant);
  return new Set(ofTenant.flatMap(({ claim }) => claim.slice(0, 1)));
}

const soughtShown = 20;

/** Returns, for the log, the claims that the mappings of a tenant depend on, and which of them are missing. */
export function soughtIn(
  mappings: readonly ConsoleMapping[],
  tenant: string,
  claims: Claims,
): string {
  const sought = mappings
    .filter(({ tenantName: name }) => name === tenant)
    .map(({ claim }) => {
      const name = nameOfPath(claim);
      return fieldOf(claims, claim) === undefined ? `${name} (absent)` : name;
    });
  const [shown, more] = [
    [...new Set(sought)].slice(0, soughtShown),
    new Set(sought).size - soughtShown,
  ];
  return shown.join(', ') + (more > 0 ? ` and ${more} more` : '');
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
  const field = fieldOf(claims, claim);
  if (field === undefined || !isVerified(field.owner, field.name)) return false;
  const present = field.owner[field.name];
  if (isObject(present)) return Object.hasOwn(present, value) && isObject(present[value]);
  // One mailbox has several texts; of other claims only the same text counts.
  const form = (text: unknown): unknown =>
    claim.length === 1 && field.name === 'email' && typeof text === 'string' ? mailbox(text) : text;
  return [present].flat().some((each) => form(each) === form(value));
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
