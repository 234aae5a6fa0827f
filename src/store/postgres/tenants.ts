import type { Millis } from '../../core/clock.ts';
import type { Tenant } from '../../core/types.ts';
import type { TenantStore } from '../port/tenants.ts';
import type { Hint } from '../port/hints.ts';
import { keepUnchanged } from '../rules/unchanged-list.ts';
import type { Database, Queries } from './database.ts';
import { removeStep } from './tenant-removal.ts';
import { advisoryLock } from './advisory-lock.ts';

/** The tenants; the head of a tenant's log stands in the same row and belongs to log.ts. */
export function createTenantStore({
  db,
  hint,
}: {
  readonly db: Database;
  readonly hint: (hint: Hint) => void;
}): TenantStore {
  return {
    list: keepUnchanged({ mark: () => markOf(db), read: () => list(db) }),
    create: async (tenant, now) => {
      const answer = await db.transact('durable', (tx) => create(tx, tenant, now));
      if ('created' in answer) hint({ kind: 'tenants' });
      return answer;
    },
    rename: async (id, to) => {
      const answer = await db.transact('confirmed', (tx) => rename(tx, id, to));
      if (answer === 'renamed') hint({ kind: 'tenants' });
      return answer;
    },
    leave: async (id) => {
      const found = await db.transact('confirmed', (tx) => leave(tx, id));
      if (found) hint({ kind: 'tenants' });
      return found;
    },
    leaving: () => db.all<Tenant>`select id, name, domain from leaving_tenants order by id`,
    removeStep: async (id, take) => {
      const step = await removeStep(db, id, take);
      for (const stream of step.streams) hint({ kind: 'stream', tenant: id, stream });
      return { removed: step.removed, isDone: step.isDone };
    },
  };
}

async function list(db: Queries): Promise<Tenant[]> {
  const rows = await db.all<Tenant>`select id, name, domain from tenants order by id`;
  return rows.map(({ id, name, domain }) => ({ id, name, domain }));
}

/** A digest of all that the list shows; the database works it out. */
async function markOf(db: Queries): Promise<string> {
  const row = await db.get<{ mark: string | null }>`
    select encode(sha256(convert_to(
      string_agg(id || ' ' || name || ' ' || domain, chr(10) order by id), 'UTF8')), 'hex') as mark
    from tenants`;
  return row?.mark ?? '';
}

/** An append that is under way has the row locked: it ends first, and later ones find no tenant. */
async function leave(tx: Queries, id: number): Promise<boolean> {
  await lockNames(tx);
  const left = await tx.run`
    insert into leaving_tenants (id, name, domain)
    select id, name, domain from tenants where id = ${id}`;
  await tx.run`delete from tenants where id = ${id}`;
  return left > 0;
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
  await advisoryLock(tx, 'tenants');
}

/** What another tenant than `self` has already. */
async function takenName(
  tx: Queries,
  { name, domain }: Names,
  self?: number,
): Promise<'name_taken' | 'domain_taken' | undefined> {
  const others = await tx.all<Names>`
    select name, domain from tenants
    where (name = ${name} or domain = ${domain}) and id is distinct from ${self}::integer
    union all
    select name, domain from leaving_tenants where name = ${name}`;
  if (others.some((other) => other.name === name)) return 'name_taken';
  return others.length > 0 ? 'domain_taken' : undefined;
}
