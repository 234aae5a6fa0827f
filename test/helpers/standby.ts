import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { copyFile, mkdir, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import type { Scope } from './cluster.ts';
import { waitFor } from './leat.ts';
import { dataOf, installationOf, type PostgresServer, query, startOn } from './postgres.ts';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';

/** A server that follows another one by streaming, until it is promoted. */
export interface Standby {
  readonly server: PostgresServer;
  /** Between the standby and its primary: a black hole makes the standby fall behind. */
  readonly proxy: TcpProxy;
  /** Makes it a primary; resolves when it takes writes. The proxy closes. */
  promote(): Promise<void>;
  close(): Promise<void>;
}

export interface StandbyOptions {
  /** Whether commits of the primary wait for the disk of the standby from then on. */
  readonly synchronous?: boolean;
  readonly port?: number;
  /** How the standby connects, as in `primary_conninfo`, without host and port. */
  readonly login?: string;
  /** A slot of the primary, which must exist. */
  readonly slot?: string;
}

/**
 * Copies a running primary as pg_basebackup does (it is not part of the npm package) and starts
 * replication.
 */
export async function startStandby(
  primary: PostgresServer,
  options: StandbyOptions = {},
): Promise<Standby> {
  const { synchronous = false, port, slot = '' } = options;
  const { login = 'user=leat application_name=standby' } = options;
  const proxy = await startTcpProxy(primary.port);
  const like = installationOf(primary);
  const server = await startOn(
    like,
    async (data) => {
      await backUp(primary, dataOf(like.folder), data);
      const conf = [
        `primary_conninfo = 'host=127.0.0.1 port=${proxy.port} ${login}'`,
        `primary_slot_name = '${slot}'`,
        `synchronous_standby_names = ''`,
      ];
      writeFileSync(join(data, 'postgresql.auto.conf'), conf.join('\n'));
      writeFileSync(join(data, 'standby.signal'), '');
    },
    port,
  );
  await waitFor('the standby to stream', async () => {
    const [row] = await query<{ streams: boolean }>(
      primary.url(),
      `select count(*) > 0 as streams from pg_stat_replication where state = 'streaming'`,
    );
    return row?.streams;
  });
  if (synchronous) {
    await query(primary.url(), `alter system set synchronous_standby_names = '*'`);
    await query(primary.url(), 'select pg_reload_conf()');
    await waitFor('commits to wait for the standby', async () => {
      const [row] = await query<{ sync: boolean }>(
        primary.url(),
        `select count(*) > 0 as sync from pg_stat_replication where sync_state = 'sync'`,
      );
      return row?.sync;
    });
  }
  return {
    server,
    proxy,
    promote: async () => {
      await query(server.url(), 'select pg_promote()');
      await proxy.close();
    },
    close: async () => {
      await proxy.close();
      await server.close();
    },
  };
}

/** Returns how many bytes of the primary's log the standby has not received. */
export async function bytesBehind(primary: PostgresServer, standby: Standby): Promise<number> {
  const [sent] = await query<{ at: string }>(
    primary.url(),
    `select (pg_current_wal_flush_lsn() - '0/0')::text as at`,
  );
  const [received] = await query<{ at: string }>(
    standby.server.url(),
    `select (pg_last_wal_receive_lsn() - '0/0')::text as at`,
  );
  return Number(sent?.at) - Number(received?.at);
}

/** A copy of the data of a running server, which `pg_basebackup` would make. */
export interface BaseBackup {
  /** Stops the server, and starts another one at its port with the data of the backup, on a timeline of its own. */
  restore(server: PostgresServer): Promise<PostgresServer>;
}

export async function createBaseBackup(scope: Scope, server: PostgresServer): Promise<BaseBackup> {
  const kept = mkdtempSync(join(tmpdir(), 'leat-base-backup-'));
  scope.after(() => rm(kept, { recursive: true, force: true }));
  await backUp(server, dataOf(installationOf(server).folder), kept);
  return {
    restore: async (former) => {
      const like = installationOf(former);
      await former.stop('immediate');
      const restored = await startOn(
        like,
        async (data) => {
          await copyFolder(kept, data, () => true);
          const conf = [
            // The end of the backup is in a file of the log that was not complete when it was copied.
            `restore_command = 'cp "${dataOf(like.folder)}/pg_wal/%f" "%p"'`,
            `recovery_target = 'immediate'`,
            `recovery_target_action = 'promote'`,
          ];
          writeFileSync(join(data, 'postgresql.auto.conf'), conf.join('\n'));
          writeFileSync(join(data, 'recovery.signal'), '');
        },
        former.port,
      );
      await waitFor('the restored server to take writes', async () => {
        const [row] = await query<{ ends: boolean }>(
          restored.url(),
          'select not pg_is_in_recovery() as ends',
        );
        return row?.ends;
      });
      await former.close();
      return restored;
    },
  };
}

/** Files that belong to a running server. */
const ofTheServer = new Set(['postmaster.pid', 'postmaster.opts', 'pg_replslot', 'pg_stat_tmp']);

/** Backs up in one session, as the session that began a backup must end it (PostgreSQL manual, section 25.3.4). */
async function backUp(primary: PostgresServer, from: string, to: string): Promise<void> {
  const client = new pg.Client({ connectionString: primary.url() });
  await client.connect();
  try {
    await client.query(`select pg_backup_start('standby', true)`);
    await copyFolder(from, to, (name) => !ofTheServer.has(name));
    for (const name of ['pg_replslot', 'pg_stat_tmp']) mkdirSync(join(to, name), { mode: 0o700 });
    const { rows } = await client.query<{ label: string }>(
      'select labelfile as label from pg_backup_stop(false)',
    );
    writeFileSync(join(to, 'backup_label'), rows[0]?.label ?? '');
  } finally {
    await client.end();
  }
}

/** Copies a folder; a running server may remove files at the same time. */
async function copyFolder(
  from: string,
  to: string,
  wants: (name: string) => boolean,
): Promise<void> {
  for (const entry of await readdir(from, { withFileTypes: true })) {
    if (!wants(entry.name)) continue;
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) {
      await mkdir(target, { mode: 0o700 });
      await copyFolder(source, target, () => true);
    } else {
      await copyFile(source, target).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOENT') throw error;
      });
    }
  }
}
