import type {
  NodeKeys,
  Rotation,
  RotationStart,
  RotationStep,
  SealedRow,
  SealState,
  SecretStore,
} from '../port/secrets.ts';
import { isOfSealed } from '../../core/errors.ts';
import { currentKeyCheck, type KeyCheckRow } from '../key-check.ts';
import { decideRotation, isSameState } from '../rules/rotation.ts';
import type { Seal } from '../seal.ts';
import { type Place, sealedTables, type SealedTable } from '../sealed-columns.ts';
import { type Command, type On, sql, type Statement, together } from './command.ts';
import { type Bindable, forUpdate, Fragment, verbatim } from './dialect.ts';
import { presentCheck, sealingRow } from './sealing.ts';

export interface SecretDeps extends On {
  readonly seal: Seal;
  /** Returns the live nodes with their keys; absent where only this process uses the store. */
  readonly liveNodes?: (() => Command<readonly NodeKeys[]>) | undefined;
}

/** A step takes some milliseconds. */
const rowsPerStep = 100;

/** Creates the store of the key of the sealed secrets. */
export function createSecretStore(deps: SecretDeps): SecretStore {
  const { seal } = deps;
  const { read, transact } = deps.on.commands;
  let isBusy = false;
  return {
    keys: () => seal.keys.ids(),
    addKey: (key) => seal.keys.add(key),
    removeKey: (id) => seal.keys.remove(id),
    state: () => read(presentCheck(seal)),
    alone: async (work) => {
      if (isBusy) return undefined;
      isBusy = true;
      try {
        return await work();
      } finally {
        isBusy = false;
      }
    },
    begin: (key) => transact('durable', () => begin(deps, key)),
    step: (rotation, after) => transact('relaxed', () => step(seal, rotation, after)),
    finish: (rotation) => transact('durable', () => finish(seal, rotation)),
  };
}

function* begin(deps: SecretDeps, target: string): Command<RotationStart> {
  const { seal, liveNodes = noNodes } = deps;
  const row = yield* lockedRow();
  const state = currentKeyCheck(seal, row);
  // After the lock: a node that joins reads the key check under a lock too, so either it is seen
  // here or it sees the change.
  const nodes = yield* liveNodes();
  const decision = decideRotation(state, target, nodes);
  if (!('next' in decision)) return decision;
  const { next } = decision;
  const isGoingOn = row !== undefined && isSameState(state, next);
  return { begun: { state: next, mark: isGoingOn ? row.sealed : yield* writeState(seal, next) } };
}

function* finish(seal: Seal, { mark, state }: Rotation): Command<boolean> {
  if (!isMarked(yield* lockedRow(), mark)) return false;
  yield* writeState(seal, { ...state, former: undefined });
  return true;
}

function* writeState(seal: Seal, state: SealState): Command<Uint8Array> {
  const sealed = seal.sealCheck(state);
  yield* sql.run`update key_check set sealed = ${sealed} where id = 1`;
  return sealed;
}

// oxlint-disable-next-line require-yield -- A command without statements.
function* noNodes(): Command<readonly NodeKeys[]> {
  return [];
}

/** Waits for transactions that seal, and lets none begin before the commit. */
function lockedRow(): Statement<KeyCheckRow | undefined> {
  return sql.get`select sealed from key_check where id = 1 ${forUpdate}`;
}

function isMarked(row: KeyCheckRow | undefined, mark: Uint8Array): boolean {
  return row !== undefined && Buffer.compare(row.sealed, mark) === 0;
}

const tables = Object.keys(sealedTables) as SealedTable[];

type Row = Readonly<Record<string, unknown>> & { readonly tenant: number; readonly row: string };

/**
 * Replaces a value only if it is still the one that was read: no row is locked before its update,
 * and what a concurrent command has changed is sealed with the present key already.
 */
function* step(
  seal: Seal,
  { state, mark }: Rotation,
  after: SealedRow | undefined,
): Command<RotationStep | undefined> {
  if (!isMarked(yield* sealingRow(), mark)) return undefined;
  const table = tables.find((name) => name === after?.table) ?? tables[0];
  if (table === undefined) throw new Error('No table has sealed values.');
  const rows = yield* rowsAfter(table, after);
  const changes = rows.map((row) => resealed(seal, state, { table, row }));
  const updates = changes.flatMap(({ row, cells }) =>
    cells.length === 0 ? [] : [{ values: cells.length, update: updateOf(table, row, cells) }],
  );
  const changed = yield* together(...updates.map(({ update }) => update));
  return {
    seen: rows.length,
    rows: changed.reduce((sum, count) => sum + count, 0),
    values: updates.reduce((sum, { values }, index) => sum + values * (changed[index] ?? 0), 0),
    broken: changes.flatMap(({ broken }) => broken),
    next: nextOf(table, rows),
  };
}

function rowsAfter(table: SealedTable, after: SealedRow | undefined): Statement<Row[]> {
  const { row, columns } = sealedTables[table];
  const [from, id, names] = [verbatim(table), verbatim(row), verbatim(columns.join(', '))];
  const { tenant, row: last } = after ?? firstOf(table);
  return sql.all`
    select tenant, ${id} as "row", ${names} from ${from}
    where (tenant, ${id}) > (${tenant}, ${last}) order by tenant, ${id} limit ${rowsPerStep}`;
}

/** Lies before every row. */
function firstOf(table: SealedTable): SealedRow {
  return { table, tenant: 0, row: '' };
}

function nextOf(table: SealedTable, rows: readonly Row[]): SealedRow | undefined {
  const last = rows.at(-1);
  if (last !== undefined && rows.length === rowsPerStep) {
    return { table, tenant: last.tenant, row: last.row };
  }
  const next = tables[tables.indexOf(table) + 1];
  return next && firstOf(next);
}

interface Cell {
  readonly column: string;
  readonly before: Uint8Array;
  readonly after: Uint8Array;
}

/** Returns the values of a row that have to be replaced, and those that do not open. */
function resealed(
  seal: Seal,
  state: SealState,
  { table, row }: { readonly table: SealedTable; readonly row: Row },
): { readonly row: Row; readonly cells: Cell[]; readonly broken: RotationStep['broken'] } {
  const cells: Cell[] = [];
  const broken: RotationStep['broken'][number][] = [];
  for (const column of sealedTables[table].columns) {
    const before = row[column] as Uint8Array;
    const place: Place = { table, tenant: row.tenant, row: row.row, column };
    try {
      const text = seal.open(before, place);
      if (seal.isCurrent(before, state)) continue;
      cells.push({ column, before, after: seal.seal(text, place, state) });
    } catch (error) {
      // A key that the process lacks is a third one: it has both keys of the rotation.
      if (!isOfSealed(error)) throw error;
      broken.push({ table, tenant: row.tenant, row: row.row, column });
    }
  }
  return { row, cells, broken };
}

function updateOf(
  table: SealedTable,
  { tenant, row }: Row,
  cells: readonly Cell[],
): Statement<number> {
  const [name, id] = [verbatim(table), verbatim(sealedTables[table].row)];
  const columns = cells.map(({ column }) => column);
  const set = equations(
    columns,
    cells.map(({ after }) => after),
    ', ',
  );
  const isUnchanged = equations(
    columns,
    cells.map(({ before }) => before),
    ' and ',
  );
  return sql.run`
    update ${name} set ${set} where tenant = ${tenant} and ${id} = ${row} and ${isUnchanged}`;
}

/** `one = ?, other = ?` */
function equations(
  names: readonly string[],
  values: readonly Bindable[],
  between: string,
): Fragment {
  const texts = names.map((name, index) => `${index === 0 ? '' : between}${name} = `);
  const piece = { texts: [...texts, ''], values };
  return new Fragment({ sqlite: piece, postgres: piece });
}
