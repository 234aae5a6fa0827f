import type { Millis } from '../../../core/clock.ts';
import {
  type Command,
  type Commands,
  EngineStep,
  inEngine,
  isCommand,
  isList,
  type Lists,
  type LocatedRow,
  Lock,
  LockTimeout,
  PageRead,
  type Purposes,
  ServerOnly,
  type Statement,
  type Step,
  type StepsOn,
  toEnd,
} from '../../commands/command.ts';
import { createWriter } from '../../commands/dialect.ts';
import { type BoundedRows, readPieces } from '../../rows/bounded.ts';
import { appendWithin } from './append.ts';
import { addEntries, keepAttempts } from './attempts.ts';
import type { Bindable, Database } from './database.ts';
import { writeRun } from './runs.ts';
import type { WalRoom } from './wal-room.ts';

const write = createWriter('sqlite');

/** One connection serves all purposes, one command after the other. */
export function purposesOf(commands: Commands): Purposes {
  const lists: Lists = { read: commands.read, bounded: (list) => list() };
  return {
    lists,
    commands,
    tokens: commands,
    access: lists,
    delivering: commands,
    lease: commands,
  };
}

const synced = {
  durable: 'durable',
  confirmed: 'durable',
  settling: 'relaxed',
  relaxed: 'relaxed',
} as const;

/** Runs commands synchronously, except that a large page is read in pieces (see bounded.ts). */
export function createCommands(db: Database, walRoom: WalRoom): Commands {
  return {
    transact: async (durability, command, last) => {
      if (last !== undefined) await walRoom.make(last.length);
      const result = db.transact(synced[durability], () => run(db, toEnd(command(), last)));
      if (last !== undefined) await walRoom.clear();
      return result;
    },
    read: async (command) => {
      let step = command.next();
      while (step.done !== true) {
        const { value } = step;
        const results = [];
        for (const each of isList(value) ? value : [value]) {
          results.push(each instanceof PageRead ? await pageOf(db, each) : resultOf(db, each));
        }
        step = command.next(isList(value) ? results : results[0]);
      }
      return step.value;
    },
  };
}

/** Runs a command within the caller's transaction. */
export function run<T>(db: Database, command: Command<T>): T {
  let step = command.next();
  while (step.done !== true) step = command.next(resultOf(db, step.value));
  return step.value;
}

function resultOf(db: Database, step: Step | readonly Step[]): unknown {
  if (isList(step)) return step.map((each) => resultOf(db, each));
  if (step instanceof PageRead) throw new Error('A page is read outside of transactions.');
  if (step instanceof EngineStep) return inEngine(steps, db, step);
  if (isCommand(step)) return run(db, step);
  if (step instanceof Lock || step instanceof LockTimeout || step instanceof ServerOnly)
    return undefined;
  const { strings, values } = write(step);
  return db[step.kind](strings, ...(values as Bindable[]));
}

function rowsOf(db: Database, statement: Statement<unknown>): Iterable<unknown> {
  const { strings, values } = write(statement);
  return db.each(strings, ...(values as Bindable[]));
}

function pageOf(db: Database, { query }: PageRead<unknown>): Promise<BoundedRows<unknown>> {
  const { columns, sizes = [], otherBytes = 0 } = query;
  return readPieces(
    (read, take) => rowsOf(db, query.rowsAfter(read, take)),
    query,
    (row) => {
      const texts = row as Record<string, string | Uint8Array>;
      const numbers = row as Record<string, number>;
      const searched = sizes.reduce((sum, name) => sum + (numbers[name] ?? 0), otherBytes);
      return columns.reduce((sum, name) => sum + Buffer.byteLength(texts[name] ?? ''), searched);
    },
  );
}

/** The steps of commands of this engine. A transaction is the only writer: it locks nothing. */
const steps: StepsOn<Database> = {
  writeRuns: (db, all) => all.forEach((one) => writeRun(db, one)),
  addEntries: (db, { key }, events, entry) => addEntries(db, key, events, entry),
  keepEntries: (db, of, offsets, before) =>
    offsets.forEach((offset) => keepAttempts(db, of, offset, before)),
  append: (db, tenant, events) => appendWithin(db, tenant, events, nowOf(db)).written,
  withBodies: (db, rows) => rows.map((row) => ({ ...row, ...bodyOf(db, row) })),
  beginStep: (db, { id, incarnation }, _kind, number) =>
    db.run`
      update nodes set last_claim = ${number}
      where id = ${id} and incarnation = ${incarnation} and last_claim < ${number}` > 0,
};

function nowOf(db: Database): Millis {
  return db.get<{ now: Millis }>`select leat_now() as now`?.now ?? 0;
}

function bodyOf(db: Database, { tenant, offset, body }: LocatedRow): Body | undefined {
  if (body !== null || offset === null) return undefined;
  return (
    db.get<Body>`
      select body, trace from kept_events where tenant = ${tenant} and offset = ${offset}` ??
    db.get<Body>`select body, trace from events where tenant = ${tenant} and offset = ${offset}`
  );
}

type Body = Pick<LocatedRow, 'body' | 'trace'>;
