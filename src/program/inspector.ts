import type { StreamRef } from '../core/types.ts';
import type { Inspector } from '../delivery/http/inspector.ts';
import type { Store } from '../store/port/store.ts';

/**
 * Frees what the inspector has of streams that were deleted, with their tenant or alone, or that
 * another node has taken over. Returns a function that ends it. A lost hint only delays it: all
 * requests are dropped after a day.
 */
export function freeFormerInspectors(
  store: Pick<Store, 'streams' | 'ownership' | 'watch'>,
  inspector: Pick<Inspector, 'has' | 'forget' | 'streams'>,
  nodeId: string | undefined,
): () => void {
  const isFormer = async (ref: StreamRef): Promise<boolean> => {
    if ((await store.streams.get(ref.tenant, ref.stream)) === undefined) return true;
    if (nodeId === undefined) return false;
    const owner = await store.ownership.owner(ref);
    return owner !== undefined && owner !== nodeId;
  };
  const check = async (ref: StreamRef): Promise<void> => {
    // Without the store, or while secrets do not open, nothing is known about the stream.
    if (await isFormer(ref).catch(() => false)) inspector.forget(ref);
  };
  return store.watch((hint) => {
    if (hint.kind === 'stream' && inspector.has(hint)) void check(hint);
    const mayConcernAll = hint.kind === 'missed' || hint.kind === 'tenants';
    if (mayConcernAll) for (const ref of inspector.streams()) void check(ref);
  });
}
