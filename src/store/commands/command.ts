import type { Millis } from '../../core/clock.ts';
import type { Attempt, LogEvent, NewEvent, Node, Offset } from '../../core/types.ts';
import type { BoundedPage, NumberedPage } from '../port/page.ts';
import type { HistoryEvent } from '../rows/attempts.ts';
import type { BoundedRows } from '../rows/bounded.ts';
import type { Run } from '../rows/runs.ts';
import type { Value } from './dialect.ts';

/**
 * One command of the store, written once for both engines: it yields its statements and receives
 * their results. SQLite runs it synchronously and PostgreSQL awaits each statement, both inside one
 * transaction. It is not resumed after a statement has failed.
 *
 * ```ts
 * function* nameOf(tenant: number, id: string): Command<string | undefined> {
 *   const row = yield* sql.get<Row>`select name from roles where tenant = ${tenant} and id = ${id}`;
 *   return row?.name;
 * }
 * ```
 */
export type Command<T> = Generator<Step | readonly Step[], T, unknown>;

/**
 * The connections of each purpose, so that no purpose waits for another one. A command says where it is
 * defined on which it runs: `on.lists.read(list(tenant))`. SQLite has one connection for all of them.
 */
export interface Purposes {
  /** Pages, searches and sums: what takes longer the more a tenant has. */
  readonly lists: Lists;
  /** Changes by a client or an operator, reads of one row, and upkeep. */
  readonly commands: Commands;
  /** What a token is issued and verified with: publishers need it whatever the others wait for. */
  readonly tokens: Commands;
  /** What a caller may do, on the connections of appends. */
  readonly access: Reads;
  /** What the node that owns a stream needs to deliver. */
  readonly delivering: Commands;
  /** Joining, heartbeats and leaving of nodes. */
  readonly lease: Commands;
}

/** What every command is made from. */
export interface On {
  readonly on: Purposes;
}

/** Reads pages within bounds that are shorter than those of other commands. */
export interface Lists {
  read<T>(command: Command<T>): Promise<T>;
  /** Runs a list of several reads, which then share the bounds. */
  bounded<T>(list: () => Promise<T>): Promise<T>;
}

/** Reads what is no page: those run on {@link Purposes.lists}. */
export type Reads = Pick<Lists, 'read'>;

/** Runs commands on the connections of one purpose. */
export interface Commands {
  /**
   * Runs a command in one transaction. PostgreSQL runs it again after a deadlock, so it must change
   * nothing but the store.
   */
  transact<T>(durability: Durability, command: () => Command<T>, last?: LastStep<T>): Promise<T>;
  /**
   * Runs a command that only reads. Each statement sees what is committed when it starts. A page does not
   * compile: it runs on {@link Purposes.lists}.
   */
  read<T>(command: Command<T> & NoPage<T>): Promise<T>;
}

/**
 * What a transaction does last: it appends to a log, and other appends to that wait from then on until the
 * commit.
 */
export interface LastStep<T> {
  /** Characters that the whole transaction writes, which may be many. */
  readonly length: number;
  run(result: T): Command<void>;
}

/** Returns a command with its last step. */
export function* toEnd<T>(command: Command<T>, last: LastStep<T> | undefined): Command<T> {
  const result = yield* command;
  if (last !== undefined) yield* last.run(result);
  return result;
}

/** Returns connections whose changes by a client or an operator run within `around`, in one transaction. */
export function aroundChanges(
  on: Purposes,
  around: <T>(command: () => Command<T>) => Command<T>,
): Purposes {
  const { read, transact } = on.commands;
  const changing: Commands = {
    read,
    transact: (durability, command, last) => transact(durability, () => around(command), last),
  };
  return { ...on, commands: changing };
}

type NoPage<T> = [Extract<T, { readonly items: readonly unknown[] }>] extends [never]
  ? unknown
  : never;

/**
 * `durable` commits survive a power cut. `confirmed` ones do as well, and so does everything that the
 * command has read (see postgres/database.ts). `settling` ones are as durable as settlements: SQLite
 * syncs them within a second. `relaxed` ones may be undone by a crash.
 */
export type Durability = 'durable' | 'confirmed' | 'settling' | 'relaxed';

export type Step =
  | Statement<unknown>
  | PageRead<unknown>
  | ServerOnly<unknown>
  | Lock
  | LockTimeout
  | EngineStep
  | Command<unknown>;

/** Statements as tagged templates next to their one use. Values are bound, never pasted. */
export const sql = {
  all: <Row>(strings: TemplateStringsArray, ...values: Value[]): Statement<Row[]> =>
    new Statement('all', strings, values),
  get: <Row>(strings: TemplateStringsArray, ...values: Value[]): Statement<Row | undefined> =>
    new Statement('get', strings, values),
  /** Returns the number of rows changed. */
  run: (strings: TemplateStringsArray, ...values: Value[]): Statement<number> =>
    new Statement('run', strings, values),
};

/** One statement; `yield*` returns its result. */
export class Statement<T> {
  readonly kind: 'all' | 'get' | 'run';
  readonly strings: TemplateStringsArray;
  readonly values: readonly Value[];

  constructor(kind: Statement<T>['kind'], strings: TemplateStringsArray, values: readonly Value[]) {
    this.kind = kind;
    this.strings = strings;
    this.values = values;
  }

  *[Symbol.iterator](): Command<T> {
    return (yield this) as T;
  }
}

/** A page that ends before the row that would make it too large; `yield*` returns its rows. */
export class PageRead<Row> {
  readonly query: PageQuery<Row>;

  constructor(query: PageQuery<Row>) {
    this.query = query;
  }

  *[Symbol.iterator](): Command<BoundedRows<Row>> {
    return (yield this) as BoundedRows<Row>;
  }
}

export interface PageQuery<Row> {
  readonly take: number;
  readonly bytesMax?: number | undefined;
  /** The long columns, whose bytes count… */
  readonly columns: readonly string[];
  /** …along with the numbers in these columns, of bytes that the engine reads for a row… */
  readonly sizes?: readonly string[];
  /** …and this many for the rest of each row. */
  readonly otherBytes?: number;
  /** The order of the rows as SQL; a constant. */
  readonly order: string;
  /** Returns the statement that reads at most `take` rows after those that were read already. */
  rowsAfter(read: readonly Row[], take: number): Statement<Row[]>;
}

/**
 * Waits until no other transaction holds the topic, and holds it until the commit: for rules about
 * rows that do not exist yet, which cannot be locked. SQLite has one writer and needs no lock.
 */
export class Lock {
  readonly topic: string;

  constructor(topic: string) {
    this.topic = topic;
  }

  *[Symbol.iterator](): Command<void> {
    yield this;
  }
}

/** Limits how long the statements of the transaction wait for locks. */
export class LockTimeout {
  readonly ms: number;

  constructor(ms: number) {
    this.ms = ms;
  }

  *[Symbol.iterator](): Command<void> {
    yield this;
  }
}

/** A statement that SQLite does without: one writer needs no locks, and one process tells no others. */
export class ServerOnly<T> {
  readonly statement: Statement<T>;

  constructor(statement: Statement<T>) {
    this.statement = statement;
  }

  *[Symbol.iterator](): Command<T | undefined> {
    return (yield this) as T | undefined;
  }
}

/** What each engine has in a form of its own, made for settling and appending. */
export interface EngineSteps {
  /** Writes the changes of locked runs. */
  writeRuns(runs: readonly Run[]): void;
  /** Adds the same entry to the history of each of these deliveries of a stream. */
  addEntries(run: Run, events: readonly HistoryEvent[], entry: Attempt): void;
  /**
   * Moves the history of events of the log, from before the start of a day, to where it stays while a
   * delivery of them is open.
   */
  keepEntries(run: Run, offsets: readonly Offset[], before: Millis): void;
  /**
   * Appends events. Returns those that are new: hint at them after the commit. Throws `StoreTenantGone`, and
   * `StoreContentRefused` when the content is at fault.
   */
  append(tenant: number, events: readonly NewEvent[]): readonly LogEvent[];
  /** Returns rows of deliveries with the bodies of their events: their own, a kept one, or that of the log. */
  withBodies(rows: readonly LocatedRow[]): readonly LocatedRow[];
  /** Notes that a node does a step; false when it has done it before, or in a former incarnation. */
  beginStep(node: Node, kind: 'claim', number: number): boolean;
}

/** A delivery, with what shows where the body of its event is. */
export interface LocatedRow {
  readonly tenant: number;
  readonly stream: string;
  readonly event_id: string;
  readonly offset: Offset | null;
  /** The body of a test event, or of one that was pruned before it got a row. */
  readonly body: string | null;
  readonly trace: string | null;
  /** On PostgreSQL, which has a partition of the log for each day. */
  readonly event_day?: number | null;
}

/** One of them; `yield*` returns its result. */
export class EngineStep<T = unknown> {
  readonly name: keyof EngineSteps;
  readonly values: readonly unknown[];

  constructor(name: keyof EngineSteps, values: readonly unknown[]) {
    this.name = name;
    this.values = values;
  }

  *[Symbol.iterator](): Command<T> {
    return (yield this) as T;
  }
}

type Yielded<Name extends keyof EngineSteps> = (
  ...values: Parameters<EngineSteps[Name]>
) => EngineStep<ReturnType<EngineSteps[Name]>>;

export const engine: { readonly [Name in keyof EngineSteps]: Yielded<Name> } = {
  writeRuns: (...values) => new EngineStep('writeRuns', values),
  addEntries: (...values) => new EngineStep('addEntries', values),
  keepEntries: (...values) => new EngineStep('keepEntries', values),
  append: (...values) => new EngineStep('append', values),
  withBodies: (...values) => new EngineStep('withBodies', values),
  beginStep: (...values) => new EngineStep('beginStep', values),
};

/** The steps as an engine has them, on the connection of the transaction. */
export type StepsOn<Connection> = {
  readonly [Name in keyof EngineSteps]: (
    connection: Connection,
    ...values: Parameters<EngineSteps[Name]>
  ) => ReturnType<EngineSteps[Name]> | Promise<ReturnType<EngineSteps[Name]>>;
};

/** Does a step in the form of an engine. */
export function inEngine<Connection>(
  steps: StepsOn<Connection>,
  connection: Connection,
  { name, values }: EngineStep,
): unknown {
  const step = steps[name] as (connection: Connection, ...values: readonly unknown[]) => unknown;
  return step(connection, ...values);
}

/** Sends steps, or the steps of commands, at the same time where the engine can, and returns their results. */
export function* together<Steps extends readonly Step[]>(
  ...steps: Steps
): Command<{ -readonly [Index in keyof Steps]: ResultOf<Steps[Index]> }> {
  return (yield steps) as { -readonly [Index in keyof Steps]: ResultOf<Steps[Index]> };
}

type ResultOf<S> = S extends { [Symbol.iterator](): Iterator<unknown, infer T, unknown> }
  ? T
  : never;

/** Whether a step is a command of its own. */
export function isCommand(step: Step): step is Command<unknown> {
  return 'next' in step;
}

/** Whether a command waits for several results at once. */
export function isList(step: Step | readonly Step[]): step is readonly Step[] {
  return Array.isArray(step);
}

/** Reads a page by number along with the number of all rows. */
export function* numberedPage<Row, Item>(
  rows: Statement<Row[]>,
  count: Statement<{ readonly total: number } | undefined>,
  itemOf: (row: Row) => Item,
): Command<NumberedPage<Item>> {
  const [read, counted] = yield* together(rows, count);
  return { items: read.map(itemOf), total: counted?.total ?? 0 };
}

/** The same for rows with long columns; refuses a page that would be larger than `bytesMax`. */
export function* boundedPage<Row, Item>(
  query: PageQuery<Row>,
  count: Statement<{ readonly total: number } | undefined>,
  itemOf: (row: Row) => Item,
): Command<BoundedPage<Item>> {
  const [{ rows, isCut }, counted] = yield* together(new PageRead(query), count);
  if (isCut) return { refused: 'too_large' };
  return { items: rows.map(itemOf), total: counted?.total ?? 0 };
}
