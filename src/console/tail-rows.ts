/** A row of the live list. */
export interface TailRow {
  readonly id: string;
  readonly type: string;
  /** When the event happened, ISO 8601. */
  readonly time: string;
  readonly offset: string;
  /** The beginning of its data as text. */
  readonly preview: string;
}

/** The live list: what is shown, and what waits while it is paused. Newest first. */
export interface TailRows {
  readonly shown: readonly TailRow[];
  readonly queued: readonly TailRow[];
  /** Events that arrived while it was paused, with those that are not kept any more. */
  readonly queuedCount: number;
}

/** Rows that are kept of each list. */
export const rowsMax = 500;

export const noRows: TailRows = { shown: [], queued: [], queuedCount: 0 };

/** Adds rows that have arrived, oldest first; they wait while the list is paused. */
export function arrived(rows: TailRows, more: readonly TailRow[], isPaused: boolean): TailRows {
  const newest = more.toReversed();
  if (!isPaused) return { ...released(rows), shown: kept([...newest, ...released(rows).shown]) };
  return {
    ...rows,
    queued: kept([...newest, ...rows.queued]),
    queuedCount: rows.queuedCount + more.length,
  };
}

/** Shows what waits. */
export function released({ shown, queued }: TailRows): TailRows {
  return { shown: kept([...queued, ...shown]), queued: [], queuedCount: 0 };
}

function kept(rows: readonly TailRow[]): readonly TailRow[] {
  return rows.slice(0, rowsMax);
}
