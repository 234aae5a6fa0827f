import type { Node } from '../../core/types.ts';
import type { Queries } from './database.ts';

/** True while the node lives in this incarnation: a former one has nothing left to say. */
export async function isPresent(tx: Queries, node: Node): Promise<boolean> {
  const row = await tx.get`
    select 1 from nodes where id = ${node.id} and incarnation = ${node.incarnation}`;
  return row !== undefined;
}
