import type { Node, StreamRef } from '../../core/types.ts';
import type { CursorRaise } from '../port/ownership.ts';
import { type Command, sql } from './command.ts';

/** Notes since when results of a stream of the node are refused, or that none is any more. */
export function* noteRefusal(
  { id }: Node,
  { tenant, stream, epoch }: StreamRef & Pick<CursorRaise, 'epoch'>,
  code: string | undefined,
): Command<void> {
  if (code === undefined) {
    yield* sql.run`
      update runs set refused_at = null, refused_code = null
      where tenant = ${tenant} and stream = ${stream} and owner = ${id} and epoch = ${epoch}`;
  } else {
    yield* sql.run`
      update runs set refused_at = coalesce(refused_at, leat_now()), refused_code = ${code}
      where tenant = ${tenant} and stream = ${stream} and owner = ${id} and epoch = ${epoch}`;
  }
}
