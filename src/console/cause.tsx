import type { ErrorCode } from '../core/error-code.ts';
import { meaningOf, remedyOf } from '../core/error-meaning.ts';

/** Says in two sentences what an error code means, and who must act. */
export function CauseMeaning({ code }: { readonly code: string | null }) {
  if (code === null) return <span class="meta">Its attempts are not kept any more.</span>;
  return (
    <span class="meta">
      {meaningOf(code as ErrorCode)} {remedyOf(code as ErrorCode)}
    </span>
  );
}
