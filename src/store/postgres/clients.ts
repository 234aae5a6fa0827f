import type { Millis } from '../../core/clock.ts';
import type { Client } from '../../core/types.ts';
import type { ClientStore } from '../port/clients.ts';
import type { Hint } from '../port/hints.ts';
import type { NumberedPage, PageByNumber } from '../port/page.ts';
import type { Database, Queries } from './database.ts';
import { grantsOfClient } from './grants.ts';
import { skewMaxMs } from '../port/time.ts';
import { clientOf, type ClientRow } from '../rows/clients.ts';

export interface ClientDeps {
  readonly db: Database;
  readonly hint: (hint: Hint) => void;
}

/** The clients, and the assertions they have used. */
export function createClientStore({ db, hint }: ClientDeps): ClientStore {
  return {
    get: (tenant, id) => get(db, tenant, id),
    list: (tenant, page) => list(db, tenant, page),
    create: async (client) => {
      const answer = await create(db, client);
      // Whoever looked for it in vain may remember that.
      if ('created' in answer) hint({ kind: 'client', tenant: client.tenant, client: client.id });
      return answer;
    },
    update: async (tenant, id, decide) => {
      const answer = await db.transact('confirmed', (tx) => update(tx, tenant, id, decide));
      if ('updated' in answer) hint({ kind: 'client', tenant, client: id });
      return answer;
    },
    delete: async (tenant, id) => {
      const deleted = await db.transact('confirmed', (tx) => remove(tx, tenant, id));
      if (deleted) hint({ kind: 'client', tenant, client: id });
      return deleted;
    },
    useAssertion: (tenant, client, jti, expiresAt) =>
      db.transact('durable', (tx) => useAssertion(tx, { tenant, client, jti, expiresAt })),
  };
}

async function get(db: Queries, tenant: number, id: string): Promise<Client | undefined> {
  const row = await db.get<ClientRow>`
    select id, name, global, issuer, secret_hash, jwks, version, created_at from clients
    where tenant = ${tenant} and id = ${id}`;
  return row && clientOf(tenant, row);
}

async function list(
  db: Queries,
  tenant: number,
  { page, perPage }: PageByNumber,
): Promise<NumberedPage<Client>> {
  const [rows, count] = await Promise.all([
    db.all<ClientRow>`
      select id, name, global, issuer, secret_hash, jwks, version, created_at from clients
      where tenant = ${tenant}
      order by created_at, id limit ${perPage} offset ${page * perPage}`,
    db.get<{ total: number }>`
      select count(*) as total from clients where tenant = ${tenant}`,
  ]);
  return { items: rows.map((row) => clientOf(tenant, row)), total: count?.total ?? 0 };
}

async function create(
  db: Queries,
  client: Omit<Client, 'version'>,
): ReturnType<ClientStore['create']> {
  const { tenant, id, name, global, issuer, secretHash, jwks, createdAt } = client;
  const inserted = await db.run`
    insert into clients (tenant, id, name, global, issuer, secret_hash, jwks, version, created_at)
    values (${tenant}, ${id}, ${name}, ${global}, ${issuer}, ${secretHash}, ${jwks}, 1, ${createdAt})
    on conflict (tenant, id) do nothing`;
  return inserted === 1 ? { created: { ...client, version: 1 } } : { refused: 'id_taken' };
}

async function update(
  tx: Queries,
  tenant: number,
  id: string,
  decide: Parameters<ClientStore['update']>[2],
): ReturnType<ClientStore['update']> {
  const before = await locked(tx, tenant, id);
  if (before === undefined) return { refused: 'unknown' };
  const decision = decide(before, await grantsOfClient(tx, tenant, id));
  if ('refused' in decision) return decision;
  const version = before.version + 1;
  const { name, global, issuer, secretHash, jwks } = decision.after;
  await tx.run`
    update clients set name = ${name}, global = ${global}, issuer = ${issuer},
      secret_hash = ${secretHash}, jwks = ${jwks}, version = ${version}
    where tenant = ${tenant} and id = ${id}`;
  return { updated: { ...decision.after, tenant, id, version, createdAt: before.createdAt } };
}

/** The client, which nobody else changes or gives a grant until the commit. */
async function locked(tx: Queries, tenant: number, id: string): Promise<Client | undefined> {
  const row = await tx.get<ClientRow>`
    select id, name, global, issuer, secret_hash, jwks, version, created_at from clients
    where tenant = ${tenant} and id = ${id} for update`;
  return row && clientOf(tenant, row);
}

/** The client goes first: then it gets nothing more, and what it has got can be seen. */
async function remove(tx: Queries, tenant: number, id: string): Promise<boolean> {
  const deleted = await tx.run`delete from clients where tenant = ${tenant} and id = ${id}`;
  if (deleted === 0) return false;
  await tx.run`delete from grants where tenant = ${tenant} and client = ${id}`;
  await tx.run`delete from role_clients where tenant = ${tenant} and client = ${id}`;
  return true;
}

/** More than one expired row per use, so that they become fewer; few, so that no use waits long. */
const expiredPerUse = 100;

/**
 * Rows that another use is about to remove are left to it, so that uses do not wait in circles. What
 * has expired is kept for as long as a node may take it for valid because of its clock.
 */
async function useAssertion(
  tx: Queries,
  use: { tenant: number; client: string; jti: string; expiresAt: Millis },
): Promise<boolean> {
  const { tenant, client, jti, expiresAt } = use;
  const [used] = await Promise.all([
    tx.run`
      insert into assertions (tenant, client, jti, expires_at)
      values (${tenant}, ${client}, ${jti}, ${expiresAt})
      on conflict (tenant, client, jti) do update set expires_at = excluded.expires_at
      where assertions.expires_at <= leat_now() - ${skewMaxMs}`,
    tx.run`
      with expired as (
        select tenant, client, jti from assertions
        where tenant = ${tenant} and expires_at <= leat_now() - ${skewMaxMs}
        order by expires_at limit ${expiredPerUse} for update skip locked)
      delete from assertions using expired
      where assertions.tenant = expired.tenant and assertions.client = expired.client
        and assertions.jti = expired.jti`,
  ]);
  return used === 1;
}
