import {
  type Command,
  type Durability,
  EngineStep,
  inEngine,
  isCommand,
  isList,
  type LastStep,
  Lock,
  LockTimeout,
  type PageQuery,
  PageRead,
  ServerOnly,
  type Statement,
  type Step,
  type StepsOn,
  toEnd,
} from '../../commands/command.ts';
import { createWriter } from '../../commands/dialect.ts';
import { type BoundedRows, rowBytes } from '../../rows/bounded.ts';
import { appendWithin } from './append.ts';
import { addAttempts, keepAttempts } from './attempts.ts';
import { advisoryLock, type Database, type Queries } from './database.ts';
import { requireSame, type StoreIdentity } from './identity.ts';
import { withBodies } from './kept.ts';
import { writeRuns } from './runs.ts';

export type Comparing = Pick<StoreIdentity, 'transact' | 'compared'>;

/**
 * Runs commands on the connections of `db`. A change is one of the store that this process joined, and so is
 * what a reading does not find: while a backup is restored under the process, rows are missing for a moment.
 */
export function createCommands(db: Database, identity: Comparing) {
  return {
    transact: <T>(
      durability: Durability,
      command: () => Command<T>,
      last?: LastStep<T>,
    ): Promise<T> =>
      identity.transact(db, durability === 'settling' ? 'durable' : durability, (tx) =>
        run(tx, toEnd(command(), last)),
      ),
    read: <T>(command: Command<T>): Promise<T> =>
      db.bounded(async () => {
        const result = await run(db, command);
        if (isAbsent(result)) await identity.compared((known) => requireSame(db, known));
        return result;
      }),
  };
}

function isAbsent(result: unknown): boolean {
  return result === undefined || result === null || (Array.isArray(result) && result.length === 0);
}

/** Runs a command within the caller's transaction. */
export async function run<T>(tx: Queries, command: Command<T>): Promise<T> {
  let step = command.next();
  while (step.done !== true) step = command.next(await resultOf(tx, step.value));
  return step.value;
}

function resultOf(tx: Queries, step: Step | readonly Step[]): Promise<unknown> {
  if (isList(step)) return Promise.all(step.map((each) => resultOf(tx, each)));
  if (isCommand(step)) return run(tx, step);
  if (step instanceof ServerOnly) return send(tx, step.statement);
  if (step instanceof Lock) return advisoryLock(tx, step.topic);
  if (step instanceof LockTimeout) return lockTimeout(tx, step.ms);
  if (step instanceof EngineStep) return Promise.resolve(inEngine(steps, tx, step));
  return step instanceof PageRead ? pageOf(tx, step) : send(tx, step);
}

function lockTimeout(tx: Queries, ms: number): Promise<unknown> {
  return tx.get`select set_config('lock_timeout', ${`${ms}ms`}, true)`;
}

const write = createWriter('postgres');

function send(tx: Queries, statement: Statement<unknown>): Promise<unknown> {
  const { strings, values } = write(statement);
  return tx[statement.kind](strings, ...values);
}

/** Returns the same rows as an engine that reads them one by one. */
async function pageOf(tx: Queries, { query }: PageRead<unknown>): Promise<BoundedRows<unknown>> {
  const { strings, values } = write(query.rowsAfter([], query.take + 1));
  const read = await tx.all<{ readonly found: number }>(
    boundedText(strings, query),
    ...values,
    query.bytesMax ?? Number.MAX_SAFE_INTEGER,
  );
  const found = read[0]?.found ?? 0;
  const rows = read.slice(0, query.take);
  return { rows, isCut: read.length < found, hasMore: rows.length < found };
}

const boundedTexts = new WeakMap<TemplateStringsArray, TemplateStringsArray>();

/**
 * Differs because PostgreSQL sends a result as a whole: the statement leaves out the rows that
 * would make the page too large. The first row is read whatever its size.
 */
export function boundedText(
  strings: TemplateStringsArray,
  {
    columns,
    sizes = [],
    otherBytes = 0,
    order,
  }: Pick<PageQuery<unknown>, 'columns' | 'sizes' | 'otherBytes' | 'order'>,
): TemplateStringsArray {
  const cached = boundedTexts.get(strings);
  if (cached !== undefined) return cached;
  const texts = columns.map((column) => `coalesce(octet_length(${column}), 0) + `);
  const lengths = [...texts, ...sizes.map((column) => `${column} + `)].join('');
  const before = `
    select * from (
      select page.*, count(*) over () as found, row_number() over (order by ${order}) as number,
        sum(${lengths}${rowBytes + otherBytes}) over (order by ${order}) as bytes
      from (`;
  const after = `) as page
    ) as sized
    where number = 1 or bytes <= `;
  const parts = [...strings];
  parts[0] = `${before}${parts[0] ?? ''}`;
  parts.push(`${parts.pop() ?? ''}${after}`, `::bigint order by ${order}`);
  const bounded = Object.assign(parts, { raw: parts });
  boundedTexts.set(strings, bounded);
  return bounded;
}

/** The steps of commands of this engine. */
const steps: StepsOn<Queries> = {
  writeRuns,
  addEntries: (tx, to, events, attempt) =>
    addAttempts(
      tx,
      events.map((event) => ({ run: to, event, attempt })),
    ),
  keepEntries: keepAttempts,
  append: async (tx, tenant, events) => (await appendWithin(tx, tenant, events)).written,
  withBodies: (tx, rows) => withBodies(tx, rows),
  beginStep: async (tx, { id, incarnation }, kind, number) => {
    const row = await tx.get<{ begun: boolean }>`
      select leat_begin_step(${id}, ${incarnation}, ${kind}, ${number}) as begun`;
    return row?.begun === true;
  },
};
