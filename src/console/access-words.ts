import type { ClientShown } from '../schemas/clients.ts';

export type AccessTab = 'clients' | 'apis' | 'grants' | 'roles';

const prefixes: readonly (readonly [prefix: string, tab: AccessTab])[] = [
  ['api_', 'apis'],
  ['cgr_', 'grants'],
  ['rol_', 'roles'],
];

/** Returns the tab that an address shows: the one it names, else that of the id it asks for. */
export function tabOf(tab: string | undefined, id: string | undefined): AccessTab {
  if (tab === 'clients' || tab === 'apis' || tab === 'grants' || tab === 'roles') return tab;
  return prefixes.find(([prefix]) => id?.startsWith(prefix) === true)?.[1] ?? 'clients';
}

/** Returns how a client proves who it is. */
export function proofOf({ issuer, jwks }: ClientShown): string {
  if (issuer !== undefined) return `tokens of ${issuer}`;
  if (jwks === undefined) return 'secret';
  return jwks.keys.length === 1 ? 'secret or a key' : `secret or ${jwks.keys.length} keys`;
}

const meaningful = new Set([
  'client_id',
  'name',
  'global',
  'issuer',
  'jwks',
  'description',
  'app_type',
]);

/**
 * Returns the names of fields that have no effect (docs/clients.md#carried-fields). Names alone: other
 * tools may have stored secrets in them.
 */
export function carriedOf(client: ClientShown): string[] {
  return Object.keys(client).filter((name) => !meaningful.has(name));
}

/** Returns a carried text; undefined when it is none. */
export function carriedText(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}
