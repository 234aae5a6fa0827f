import type { Millis } from '../../core/clock.ts';
import type { Tenant } from '../../core/types.ts';
import type { Hint } from '../port/hints.ts';
import type { TenantStore } from '../port/tenants.ts';
import { type Command, Lock, type On, sql } from './command.ts';
import { perDialect } from './dialect.ts';
import { type Removals, removeStep } from './tenant-removal.ts';

export interface TenantDeps extends On {
  readonly hint: (hint: Hint) => void;
  readonly removals: Removals;
}

/** Creates the store of tenants. The head of a tenant's log is in the same row, see log.ts. */
export function createTenantStore({ on, hint, removals }: TenantDeps): TenantStore {
  const { read, transact } = on.commands;
  return {
    list: keepUnchanged({ mark: () => read(mark()), read: () => read(list()) }),
    create: async (tenant, now) => {
      const result = await transact('durable', () => create(tenant, now));
      if ('created' in result) hint({ kind: 'tenants' });
      return result;
    },
    rename: async (id, to) => {
      const result = await transact('confirmed', () => rename(id, to));
      if (result === 'renamed') hint({ kind: 'tenants' });
      return result;
    },
    leave: async (id) => {
      const isFound = await transact('confirmed', () => leave(id));
      if (isFound) hint({ kind: 'tenants' });
      return isFound;
    },
    leaving: () => read(leaving()),
    removeStep: async (id, query) => {
      const { streams, ...step } = await transact('relaxed', () => removeStep(id, query, removals));
      for (const stream of streams) hint({ kind: 'stream', tenant: id, stream });
      return step;
    },
  };
}

function* list(): Command<Tenant[]> {
  const rows = yield* sql.all<Tenant>`select id, name, domain from tenants order by id`;
  return rows.map(({ id, name, domain }) => ({ id, name, domain }));
}

const names = `string_agg(id || ' ' || name || ' ' || domain, '\n' order by id)`;
/** PostgreSQL sends a digest, which is shorter; SQLite has no such function and sends nothing. */
const digest = perDialect({
  sqlite: names,
  postgres: `encode(sha256(convert_to(${names}, 'UTF8')), 'hex')`,
});

/** Returns a text that changes with the list, at a fraction of the cost of its rows. */
function* mark(): Command<string> {
  const row = yield* sql.get<{ mark: string | null }>`select ${digest} as mark from tenants`;
  return row?.mark ?? '';
}

/** An append that holds the lock of the row ends first; later ones find no tenant. */
function* leave(id: number): Command<boolean> {
  yield* lockNames();
  const left = yield* sql.run`
    insert into leaving_tenants (id, name, domain)
    select id, name, domain from tenants where id = ${id}`;
  yield* sql.run`delete from tenants where id = ${id}`;
  return left > 0;
}

function* leaving(): Command<Tenant[]> {
  const rows = yield* sql.all<Tenant>`select id, name, domain from leaving_tenants order by id`;
  return rows.map(({ id, name, domain }) => ({ id, name, domain }));
}

type Names = Pick<Tenant, 'name' | 'domain'>;

function* create(tenant: Names, now: Millis): Command<Awaited<ReturnType<TenantStore['create']>>> {
  const { name, domain } = inLowerCase(tenant);
  yield* lockNames();
  const taken = yield* takenName({ name, domain });
  if (taken !== undefined) return { refused: taken };
  const row = yield* sql.get<{ id: number }>`
    insert into tenants (name, domain, created_at) values (${name}, ${domain}, ${now})
    returning id`;
  if (row === undefined) throw new Error('An insert returned no row.');
  return { created: { id: row.id, name, domain } };
}

function* rename(id: number, to: Names): Command<Awaited<ReturnType<TenantStore['rename']>>> {
  const { name, domain } = inLowerCase(to);
  yield* lockNames();
  if ((yield* sql.get`select 1 from tenants where id = ${id}`) === undefined) return 'unknown';
  const taken = yield* takenName({ name, domain }, id);
  if (taken !== undefined) return taken;
  yield* sql.run`update tenants set name = ${name}, domain = ${domain} where id = ${id}`;
  return 'renamed';
}

/** Host names are compared without regard to case (RFC 3986 section 3.2.2). */
function inLowerCase({ name, domain }: Names): Names {
  return { name, domain: domain.toLowerCase() };
}

/** Lets one process at a time look up a free name and take it. A lock on the table would stop the logs. */
function lockNames(): Lock {
  return new Lock('tenants');
}

/** Returns which of the two another tenant than `self` has already. */
function* takenName(
  { name, domain }: Names,
  self?: number,
): Command<'name_taken' | 'domain_taken' | undefined> {
  const others = yield* sql.all<Names>`
    select name, domain from tenants
    where (name = ${name} or domain = ${domain}) and id is distinct from cast(${self} as integer)
    union all
    select name, domain from leaving_tenants where name = ${name}`;
  if (others.some((other) => other.name === name)) return 'name_taken';
  return others.length > 0 ? 'domain_taken' : undefined;
}

/**
 * Caches a list that is read often: returns the array of the last call while `mark`, which costs
 * less than the list, is the same.
 */
function keepUnchanged<T>(deps: {
  readonly mark: () => Promise<string>;
  readonly read: () => Promise<readonly T[]>;
}): () => Promise<readonly T[]> {
  let kept: { readonly mark: string; readonly list: readonly T[] } | undefined;
  return async () => {
    // Before the list: a change between the two is in the list, and changes the next mark.
    const current = await deps.mark();
    if (kept?.mark !== current) kept = { mark: current, list: await deps.read() };
    return kept.list;
  };
}
