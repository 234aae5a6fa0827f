import {
  Call,
  type Command,
  type Commands,
  isList,
  Lock,
  PageRead,
  type Statement,
  type Step,
} from '../directory/command.ts';
import { createWriter } from '../directory/dialect.ts';
import { type BoundedRows, readPieces } from '../rows/bounded.ts';
import type { Bindable, Database } from './database.ts';

/** Runs commands synchronously, except that a large page is read in pieces (see bounded.ts). */
export interface SqliteCommands extends Commands {
  /** Runs a command within the caller's transaction. */
  run<T>(command: Command<T>): T;
}

export function createCommands(db: Database): SqliteCommands {
  const send = createSender(db);
  const run = <T>(command: Command<T>): T => {
    let step = command.next();
    while (step.done !== true) step = command.next(resultOf(step.value, send));
    return step.value;
  };
  return {
    run,
    transact: async (durability, command) =>
      db.transact(durability === 'relaxed' ? 'relaxed' : 'durable', () => run(command())),
    read: async (command) => {
      let step = command.next();
      while (step.done !== true) {
        const { value } = step;
        const steps = isList(value) ? value : [value];
        const results = [];
        for (const each of steps) {
          results.push(each instanceof PageRead ? await pageOf(each, send) : resultOf(each, send));
        }
        step = command.next(isList(value) ? results : results[0]);
      }
      return step.value;
    },
  };
}

interface Sender {
  result(statement: Statement<unknown>): unknown;
  rows(statement: Statement<unknown>): Iterable<unknown>;
  call(step: Call<unknown>): unknown;
}

function createSender(db: Database): Sender {
  const write = createWriter('sqlite');
  return {
    result: (statement) => {
      const { strings, values } = write(statement);
      return db[statement.kind](strings, ...(values as Bindable[]));
    },
    rows: (statement) => {
      const { strings, values } = write(statement);
      return db.each(strings, ...(values as Bindable[]));
    },
    // Functions of this engine take its connection.
    call: ({ work }) => work(db as never),
  };
}

function resultOf(step: Step | readonly Step[], send: Sender): unknown {
  if (isList(step)) return step.map((each) => resultOf(each, send));
  if (step instanceof PageRead) throw new Error('A page is read outside of transactions.');
  if (step instanceof Call) return send.call(step);
  return step instanceof Lock ? undefined : send.result(step);
}

function pageOf({ query }: PageRead<unknown>, send: Sender): Promise<BoundedRows<unknown>> {
  const { columns, otherBytes = 0 } = query;
  return readPieces(
    (read, take) => send.rows(query.rowsAfter(read, take)),
    query,
    (row) => {
      const texts = row as Record<string, string | Uint8Array>;
      return columns.reduce((sum, name) => sum + Buffer.byteLength(texts[name] ?? ''), otherBytes);
    },
  );
}
