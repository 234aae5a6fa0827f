import type { Stream } from '../../core/types.ts';
import type { KeyRows } from '../port/ownership.ts';

/** The rows of one key, as counted by an engine. */
export interface KeyRow {
  readonly key: string;
  readonly blocked: number;
  /** Those of first deliveries that wait for a retry, or are in progress. */
  readonly held: number;
  readonly failed: number;
}

/** Returns the keys that an owner has to know: others are free. */
export function keyRowsOf(
  { delivery }: Pick<Stream, 'delivery'>,
  rows: readonly KeyRow[],
): KeyRows[] {
  const blocks = delivery?.onFailure === 'block';
  return rows
    .map(({ key, blocked, held, failed }) => {
      return { key, blocked, held: held > 0, failed: blocks ? failed : 0 };
    })
    .filter(({ blocked, held, failed }) => blocked > 0 || held || failed > 0);
}
