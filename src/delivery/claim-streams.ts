import type { Node } from '../core/types.ts';
import type {
  ClaimRequest,
  CursorRaise,
  OwnedStream,
  OwnershipStore,
} from '../store/port/ownership.ts';
import { type CulpritDeps, runForEach, runOne } from './culprits.ts';

interface ClaimDeps extends CulpritDeps {
  readonly ownership: Pick<OwnershipStore, 'claim' | 'begin'>;
  readonly node: Node;
}

export interface Claimed {
  readonly taken: readonly OwnedStream[];
  /** Those of them that can be sent. */
  readonly begun: readonly OwnedStream[];
}

/**
 * Claims streams. After a refusal it takes them first and then begins them, so that a row that cannot be
 * changed keeps one stream from being sent, and not all that are free: that one is owned, and `refused`.
 * Returns `undefined` when streams cannot even be taken.
 */
export async function claimStreams(
  deps: ClaimDeps,
  request: ClaimRequest,
  refused: (cursor: CursorRaise, code: string) => void,
): Promise<Claimed | undefined> {
  const { ownership, node } = deps;
  const claim = (asked: ClaimRequest): Promise<OwnedStream[] | undefined> =>
    runOne(deps, asked, () => ownership.claim(node, asked));
  const claimed = await claim(request);
  if (claimed !== undefined) return { taken: claimed, begun: claimed };
  // The refused claim has left nothing, so its number is still the next one.
  const taken = await claim({ ...request, takesOnly: true });
  if (taken === undefined) return undefined;
  const begun: OwnedStream[] = [];
  await runForEach(deps, taken.map(cursorOf), {
    run: (some) => ownership.begin(node, some, request),
    done: (_some, owned) => begun.push(...owned),
    refused,
  });
  return { taken, begun };
}

function cursorOf({ stream, epoch, run, cursor }: OwnedStream): CursorRaise {
  const { tenant, id, version } = stream;
  return { tenant, stream: id, epoch, run, version, cursor };
}
