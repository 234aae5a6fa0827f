import type { Millis } from '../../core/clock.ts';
import type { Tenant } from '../../core/types.ts';
import type { TenantStore } from '../port/tenants.ts';
import type { Hint } from '../port/hints.ts';
import { keepUnchanged } from '../rules/unchanged-list.ts';
import type { Database } from './database.ts';
import { removeStep } from './tenant-removal.ts';

/** The tenants; the head of a tenant's log stands in the same row and belongs to log.ts. */
export function createTenantStore({
  db,
  hint,
}: {
  readonly db: Database;
  readonly hint: (hint: Hint) => void;
}): TenantStore {
  return {
    list: keepUnchanged({ mark: async () => markOf(db), read: async () => list(db) }),
    create: async (tenant, now) => {
      const answer = db.transact('durable', () => create(db, tenant, now));
      if ('created' in answer) hint({ kind: 'tenants' });
      return answer;
    },
    rename: async (id, to) => {
      const answer = db.transact('durable', () => rename(db, id, to));
      if (answer === 'renamed') hint({ kind: 'tenants' });
      return answer;
    },
    leave: async (id) => {
      const found = db.transact('durable', () => leave(db, id));
      if (found) hint({ kind: 'tenants' });
      return found;
    },
    leaving: async () => leaving(db),
    removeStep: async (id, take) => {
      const step = db.transact('relaxed', () => removeStep(db, id, take));
      for (const stream of step.streams) hint({ kind: 'stream', tenant: id, stream });
      return { removed: step.removed, isDone: step.isDone };
    },
  };
}

function list(db: Database): Tenant[] {
  const rows = db.all<Tenant>`select id, name, domain from tenants order by id`;
  return rows.map(({ id, name, domain }) => ({ id, name, domain }));
}

/** All that the list shows, as one text: it costs a fraction of the rows. */
function markOf(db: Database): string {
  const row = db.get<{ mark: string | null }>`
    select group_concat(id || ' ' || name || ' ' || domain, char(10)) as mark from tenants`;
  return row?.mark ?? '';
}

function leave(db: Database, id: number): boolean {
  const left = db.run`
    insert into leaving_tenants (id, name, domain)
    select id, name, domain from tenants where id = ${id}`;
  db.run`delete from tenants where id = ${id}`;
  return left > 0;
}

function leaving(db: Database): Tenant[] {
  const rows = db.all<Tenant>`select id, name, domain from leaving_tenants order by id`;
  return rows.map(({ id, name, domain }) => ({ id, name, domain }));
}

type Names = Pick<Tenant, 'name' | 'domain'>;

function create(
  db: Database,
  tenant: Names,
  now: Millis,
): Awaited<ReturnType<TenantStore['create']>> {
  const { name, domain } = inLowerCase(tenant);
  const taken = takenName(db, { name, domain });
  if (taken !== undefined) return { refused: taken };
  const row = db.get<{ id: number }>`
    insert into tenants (name, domain, created_at) values (${name}, ${domain}, ${now})
    returning id`;
  if (row === undefined) throw new Error('An insert returned no row.');
  return { created: { id: row.id, name, domain } };
}

function rename(db: Database, id: number, to: Names): Awaited<ReturnType<TenantStore['rename']>> {
  const { name, domain } = inLowerCase(to);
  if (db.get`select 1 from tenants where id = ${id}` === undefined) return 'unknown';
  const taken = takenName(db, { name, domain }, id);
  if (taken !== undefined) return taken;
  db.run`update tenants set name = ${name}, domain = ${domain} where id = ${id}`;
  return 'renamed';
}

/** Host names are compared without regard to case (RFC 3986 section 3.2.2). */
function inLowerCase({ name, domain }: Names): Names {
  return { name, domain: domain.toLowerCase() };
}

/** What another tenant than `self` has already. */
function takenName(
  db: Database,
  { name, domain }: Names,
  self?: number,
): 'name_taken' | 'domain_taken' | undefined {
  const others = db.all<Names>`
    select name, domain from tenants
    where (name = ${name} or domain = ${domain}) and id is not ${self}
    union all
    select name, domain from leaving_tenants where name = ${name}`;
  if (others.some((other) => other.name === name)) return 'name_taken';
  return others.length > 0 ? 'domain_taken' : undefined;
}
