import type { Node } from '../../core/types.ts';
import type { Queries } from './database.ts';

/** Returns whether the node is alive in this incarnation; a former one may not write any more. */
export async function isPresent(tx: Queries, node: Node): Promise<boolean> {
  const row = await tx.get`
    select 1 from nodes where id = ${node.id} and incarnation = ${node.incarnation}`;
  return row !== undefined;
}
