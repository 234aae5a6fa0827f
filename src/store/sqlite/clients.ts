import type { Millis } from '../../core/clock.ts';
import type { Client } from '../../core/types.ts';
import type { ClientStore } from '../port/clients.ts';
import type { Hint } from '../port/hints.ts';
import type { NumberedPage, PageByNumber } from '../port/page.ts';
import { skewMaxMs, type StoreTime } from '../port/time.ts';
import type { Database } from './database.ts';
import { grantsOfClient } from './grants.ts';
import { clientOf, type ClientRow } from '../rows/clients.ts';

export interface ClientDeps {
  readonly db: Database;
  readonly hint: (hint: Hint) => void;
  readonly time: StoreTime;
}

/** The clients, and the assertions they have used. */
export function createClientStore({ db, hint, time }: ClientDeps): ClientStore {
  return {
    get: async (tenant, id) => get(db, tenant, id),
    list: async (tenant, page) => list(db, tenant, page),
    create: async (client) => {
      const answer = db.transact('durable', () => create(db, client));
      // Whoever looked for it in vain may remember that.
      if ('created' in answer) hint({ kind: 'client', tenant: client.tenant, client: client.id });
      return answer;
    },
    update: async (tenant, id, decide) => {
      const answer = db.transact('durable', () => update(db, tenant, id, decide));
      if ('updated' in answer) hint({ kind: 'client', tenant, client: id });
      return answer;
    },
    delete: async (tenant, id) => {
      const deleted = db.transact('durable', () => remove(db, tenant, id));
      if (deleted) hint({ kind: 'client', tenant, client: id });
      return deleted;
    },
    useAssertion: async (tenant, client, jti, expiresAt) => {
      const use = { tenant, client, jti, expiresAt, expiredBy: time.now() - skewMaxMs };
      return db.transact('durable', () => useAssertion(db, use));
    },
  };
}

function get(db: Database, tenant: number, id: string): Client | undefined {
  const row = db.get<ClientRow>`
    select id, name, global, issuer, secret_hash, jwks, version, created_at from clients
    where tenant = ${tenant} and id = ${id}`;
  return row && clientOf(tenant, row);
}

function list(db: Database, tenant: number, { page, perPage }: PageByNumber): NumberedPage<Client> {
  const rows = db.all<ClientRow>`
    select id, name, global, issuer, secret_hash, jwks, version, created_at from clients
    where tenant = ${tenant}
    order by created_at, id limit ${perPage} offset ${page * perPage}`;
  const count = db.get<{ total: number }>`
    select count(*) as total from clients where tenant = ${tenant}`;
  return { items: rows.map((row) => clientOf(tenant, row)), total: count?.total ?? 0 };
}

function create(
  db: Database,
  client: Omit<Client, 'version'>,
): Awaited<ReturnType<ClientStore['create']>> {
  const { tenant, id, name, global, issuer, secretHash, jwks, createdAt } = client;
  const inserted = db.run`
    insert into clients (tenant, id, name, global, issuer, secret_hash, jwks, version, created_at)
    values (${tenant}, ${id}, ${name}, ${global}, ${issuer}, ${secretHash}, ${jwks}, 1, ${createdAt})
    on conflict (tenant, id) do nothing`;
  return inserted === 1 ? { created: { ...client, version: 1 } } : { refused: 'id_taken' };
}

function update(
  db: Database,
  tenant: number,
  id: string,
  decide: Parameters<ClientStore['update']>[2],
): Awaited<ReturnType<ClientStore['update']>> {
  const before = get(db, tenant, id);
  if (before === undefined) return { refused: 'unknown' };
  const decision = decide(before, grantsOfClient(db, tenant, id));
  if ('refused' in decision) return decision;
  const version = before.version + 1;
  const { name, global, issuer, secretHash, jwks } = decision.after;
  db.run`
    update clients set name = ${name}, global = ${global}, issuer = ${issuer},
      secret_hash = ${secretHash}, jwks = ${jwks}, version = ${version}
    where tenant = ${tenant} and id = ${id}`;
  return { updated: { ...decision.after, tenant, id, version, createdAt: before.createdAt } };
}

function remove(db: Database, tenant: number, id: string): boolean {
  db.run`delete from grants where tenant = ${tenant} and client = ${id}`;
  db.run`delete from role_clients where tenant = ${tenant} and client = ${id}`;
  return db.run`delete from clients where tenant = ${tenant} and id = ${id}` === 1;
}

/** More than one expired row per use, so that they become fewer; few, so that no use waits long. */
const expiredPerUse = 100;

/** What has expired is kept for as long as it may be taken for valid while the clock is wrong. */
function useAssertion(
  db: Database,
  use: { tenant: number; client: string; jti: string; expiresAt: Millis; expiredBy: Millis },
): boolean {
  const { tenant, client, jti, expiresAt, expiredBy } = use;
  db.run`
    delete from assertions
    where tenant = ${tenant} and expires_at <= min(${expiredBy}, coalesce((
      select expires_at from assertions where tenant = ${tenant}
      order by expires_at limit 1 offset ${expiredPerUse - 1}), ${expiredBy}))`;
  const used = db.run`
    insert into assertions (tenant, client, jti, expires_at)
    values (${tenant}, ${client}, ${jti}, ${expiresAt})
    on conflict (tenant, client, jti) do update set expires_at = excluded.expires_at
    where assertions.expires_at <= ${expiredBy}`;
  return used === 1;
}
