import type { Millis } from '../../core/clock.ts';
import type { Tenant } from '../../core/types.ts';
import type { TenantStore } from '../port-tenants.ts';
import type { Database, Queries } from './database.ts';
import { takeTurn } from './turns.ts';

/** The tenants; the head of a tenant's log stands in the same row and belongs to log.ts. */
export function createTenantStore({ db }: { readonly db: Database }): TenantStore {
  return {
    list: () => list(db),
    create: (tenant, now) => db.transact('durable', (tx) => create(tx, tenant, now)),
    rename: (id, to) => db.transact('durable', (tx) => rename(tx, id, to)),
  };
}

async function list(db: Queries): Promise<Tenant[]> {
  const rows = await db.all<Tenant>`select id, name, domain from tenants order by id`;
  return rows.map(({ id, name, domain }) => ({ id, name, domain }));
}

type Names = Pick<Tenant, 'name' | 'domain'>;

async function create(tx: Queries, tenant: Names, now: Millis): ReturnType<TenantStore['create']> {
  const { name, domain } = inLowerCase(tenant);
  await lockNames(tx);
  const taken = await takenName(tx, { name, domain });
  if (taken !== undefined) return { refused: taken };
  const row = await tx.get<{ id: number }>`
    insert into tenants (name, domain, created_at) values (${name}, ${domain}, ${now})
    returning id`;
  if (row === undefined) throw new Error('An insert returned no row.');
  return { created: { id: row.id, name, domain } };
}

async function rename(tx: Queries, id: number, to: Names): ReturnType<TenantStore['rename']> {
  const { name, domain } = inLowerCase(to);
  await lockNames(tx);
  if ((await tx.get`select 1 from tenants where id = ${id}`) === undefined) return 'unknown';
  const taken = await takenName(tx, { name, domain }, id);
  if (taken !== undefined) return taken;
  await tx.run`update tenants set name = ${name}, domain = ${domain} where id = ${id}`;
  return 'renamed';
}

/** Host names are compared without regard to case (RFC 3986 section 3.2.2). */
function inLowerCase({ name, domain }: Names): Names {
  return { name, domain: domain.toLowerCase() };
}

/** One process at a time looks for a free name and takes it. A lock on the table stops the logs. */
async function lockNames(tx: Queries): Promise<void> {
  await takeTurn(tx, 'tenants');
}

/** What another tenant than `self` has already. */
async function takenName(
  tx: Queries,
  { name, domain }: Names,
  self?: number,
): Promise<'name_taken' | 'domain_taken' | undefined> {
  const others = await tx.all<Names>`
    select name, domain from tenants
    where (name = ${name} or domain = ${domain}) and id is distinct from ${self}::integer`;
  if (others.some((other) => other.name === name)) return 'name_taken';
  return others.length > 0 ? 'domain_taken' : undefined;
}
