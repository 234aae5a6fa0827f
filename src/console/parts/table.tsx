import type { ComponentChildren } from 'preact';
import { useContext, useRef } from 'preact/hooks';
import { IsFormer } from './loaded.tsx';

/** A column of a table. */
export interface Column<T> {
  readonly title: string;
  readonly cell: (row: T) => ComponentChildren;
  /** Right-aligned figures; the unit is in the title. */
  readonly isNumber?: boolean;
  /**
   * On narrow screens: `first` begins the block, `line` takes a line of its own, `labelled` shows its
   * title before the value, `hidden` is left out. Default: follows the cell before.
   */
  readonly narrow?: 'first' | 'line' | 'labelled' | 'hidden';
  /** Where its header leads, which sorts by it. */
  readonly sort?: Sort | undefined;
}

/** A header that sorts at the server. */
export interface Sort {
  readonly href: string;
  readonly direction: 'ascending' | 'descending' | undefined;
}

interface TableProps<T> {
  /** Said to assistive technology. */
  readonly caption: string;
  readonly columns: readonly Column<T>[];
  readonly rows: readonly T[];
  readonly keyOf: (row: T) => string;
  readonly isCompact?: boolean;
  /** Shown instead of an empty table: a sentence and an action. */
  readonly empty?: ComponentChildren;
}

/** A table that becomes a list of blocks on narrow screens; framed at once while another page of it is read. */
export function Table<T>({ caption, columns, rows, keyOf, isCompact, empty }: TableProps<T>) {
  const isFormer = useContext(IsFormer);
  // Rows of the former address stay as they were drawn: drawing them again would delay the frame.
  const drawn = useRef<Drawn<T> | undefined>(undefined);
  if (!isFormer || drawn.current === undefined) {
    drawn.current = { columns, body: bodyOf(columns, rows, keyOf) };
  }
  const { columns: ofRows, body } = drawn.current;
  // Links that sort keep the filter that was chosen meanwhile.
  const heads = columns.length === ofRows.length ? columns : ofRows;
  if (rows.length === 0) {
    return (
      <div class="table-frame empty" aria-busy={isFormer}>
        {empty ?? 'There is nothing here.'}
      </div>
    );
  }
  return (
    // The roles stay those of a table where styles turn its parts into blocks.
    <div class="table-frame" tabIndex={0} role="region" aria-label={caption} aria-busy={isFormer}>
      <table role="table" class={isCompact === true ? 'folding compact' : 'folding'}>
        <caption class="visually-hidden">{caption}</caption>
        <thead role="rowgroup">
          <tr role="row">
            {heads.map((column) => (
              <Header key={column.title} {...column} />
            ))}
          </tr>
        </thead>
        {body}
      </table>
    </div>
  );
}

interface Drawn<T> {
  readonly columns: readonly Column<T>[];
  readonly body: ComponentChildren;
}

function bodyOf<T>(
  columns: readonly Column<T>[],
  rows: readonly T[],
  keyOf: (row: T) => string,
): ComponentChildren {
  return (
    <tbody role="rowgroup">
      {rows.map((row) => (
        <tr key={keyOf(row)} role="row">
          {columns.map((column) => (
            <Cell key={column.title} column={column} row={row} />
          ))}
        </tr>
      ))}
    </tbody>
  );
}

function Header<T>({ title, isNumber, narrow, sort }: Column<T>) {
  return (
    <th
      scope="col"
      role="columnheader"
      class={`${isNumber === true ? 'number' : ''} ${narrow === 'hidden' ? 'only-wide' : ''}`.trim()}
      {...(sort?.direction === undefined ? {} : { 'aria-sort': sort.direction })}
    >
      {sort === undefined ? (
        title
      ) : (
        <a href={sort.href}>
          {title}
          {sort.direction === 'ascending' && ' ↑'}
          {sort.direction === 'descending' && ' ↓'}
        </a>
      )}
    </th>
  );
}

function Cell<T>({ column, row }: { readonly column: Column<T>; readonly row: T }) {
  const { title, isNumber, narrow, cell } = column;
  const classes = [
    isNumber === true ? 'number' : '',
    narrow === 'first' ? 'first' : '',
    narrow === 'line' ? 'line' : '',
    narrow === 'hidden' ? 'only-wide' : '',
  ];
  return (
    <td
      role="cell"
      class={classes.join(' ').trim()}
      {...(narrow === 'labelled' ? { 'data-label': title } : {})}
    >
      {cell(row)}
    </td>
  );
}
