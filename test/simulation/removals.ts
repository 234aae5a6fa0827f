import type { OracleCore } from './oracle-core.ts';
import type { SimulatedStream } from './simulated-stream.ts';
import type { TenantLog } from './tenant-log.ts';

/** A batch of results gathers while one is recorded: those of the second began before the first was refused. */
const refusedBatches = 2;

/** Tenants that are removed: what may still be sent of them, and that nothing of them is left. */
export class Removals {
  readonly #core: OracleCore;
  /** Streams whose rows are gone, and how many batches of each process were refused since. */
  readonly #refused = new Map<SimulatedStream, Map<string, number>>();
  /** Keys of the histories of each tenant. */
  readonly #keys = new Map<TenantLog, readonly number[]>();

  constructor(core: OracleCore) {
    this.#core = core;
  }

  /** Notes that a tenant is unknown from now on; its streams are there until a step removes them. */
  left(log: TenantLog): void {
    log.removal = 'leaving';
    const { db } = this.#core.deps.sharedStore;
    const rows = db.all<{ key: number }>`select key from runs where tenant = ${log.tenant}`;
    this.#keys.set(
      log,
      rows.map(({ key }) => key),
    );
  }

  /** Notes a step; returns the streams that are gone since. */
  stepped(log: TenantLog, isDone: boolean): SimulatedStream[] {
    if (log.removal === 'none') return [];
    const { db } = this.#core.deps.sharedStore;
    const gone = [...this.#core.streams.values()]
      .filter((stream) => stream.log === log && !stream.isDeleted)
      .filter(({ id }) => db.get`select 1 from streams where id = ${id}` === undefined);
    for (const stream of gone) this.#refused.set(stream, new Map());
    if (isDone) log.removal = 'done';
    this.checkGone(log);
    return gone;
  }

  /** Returns whether the rows of the stream are gone along with its tenant. */
  has(stream: SimulatedStream): boolean {
    return this.#refused.has(stream);
  }

  /** Notes that the owner of a stream reads whether it is still there: from now on it begins nothing. */
  read(process: string, streamId: string): void {
    this.#note(process, streamId, refusedBatches);
  }

  /** Notes that results of a stream were refused because it is gone. */
  refused(process: string, streamId: string): void {
    this.#note(process, streamId, 1);
  }

  #note(process: string, streamId: string, count: number): void {
    const stream = this.#core.streams.get(streamId);
    const refused = stream && this.#refused.get(stream);
    refused?.set(process, (refused.get(process) ?? 0) + count);
  }

  /** Checks an attempt of a stream that is gone. */
  begins(process: string, stream: SimulatedStream): void {
    if ((this.#refused.get(stream)?.get(process) ?? 0) < refusedBatches) return;
    this.#core.violate(
      'removed',
      `${process} sends for ${stream.label}, and knows that it is gone`,
    );
  }

  /** Forgets what is there again, after the store was restored. */
  restored(): void {
    for (const [stream, refused] of this.#refused) {
      if (stream.isDeleted) refused.clear();
      else this.#refused.delete(stream);
    }
  }

  /** Checks that no table has a row of a tenant whose removal has ended. */
  checkGone(log: TenantLog): void {
    if (log.removal !== 'done') return;
    const { db } = this.#core.deps.sharedStore;
    const tables = db.all<{ name: string; column: string }>`
      select t.name, c.name as column from sqlite_master t join pragma_table_info(t.name) c
      where t.type = 'table' and (c.name = 'tenant' or t.name in ('tenants', 'leaving_tenants') and c.name = 'id')`;
    const keys = JSON.stringify(this.#keys.get(log) ?? []);
    const queries = [
      ...tables.map(({ name, column }) => [name, `${column} = ${log.tenant}`] as const),
      ...['attempts', 'attempts_kept'].map(
        (name) => [name, `stream_key in (select value from json_each('${keys}'))`] as const,
      ),
    ];
    for (const [name, where] of queries) {
      const sql = [`select count(*) as count from ${name} where ${where}`];
      const rows = db.get<{ count: number }>(Object.assign(sql, { raw: sql }));
      if (rows?.count !== 0)
        this.#core.violate('removed', `${name} has ${rows?.count} rows of tenant ${log.tenant}`);
    }
  }
}
