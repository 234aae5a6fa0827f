import {
  keepPreviousData,
  QueryClient,
  QueryObserver,
  type QueryObserverResult,
} from '@tanstack/query-core';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { RequestFailed, send } from './request.ts';
import { sessionEnded } from './session.ts';

/** Reads that are shared by all parts of a page, by the path of their request. */
export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      gcTime: 300_000,
      refetchOnWindowFocus: true,
      retry: (count, error) => count < 2 && isPassing(error),
      networkMode: 'always',
    },
  },
});

/** Whether an error may be gone when the request is repeated. */
function isPassing(error: unknown): boolean {
  return error instanceof RequestFailed && (error.status === 0 || error.status === 503);
}

export type Read<T> = QueryObserverResult<T, unknown>;

/** Paths that are read again because something changed, not because somebody asked. */
const refreshing = new Set<string>();
/** The signals of reads that nobody asked for: a read that is repeated after a failure keeps its signal. */
const background = new WeakSet<AbortSignal>();

/**
 * Reads a path of the management API and reads it again when it changed. Without a path nothing is
 * read. While the path changes, as another page of a list does, the former data stay.
 */
export function useRead<T>(
  path: string | undefined,
  options: { refetchMs?: number | ((data: T | undefined) => number | false) } = {},
): Read<T> {
  const { refetchMs } = options;
  const wanted = useMemo(
    () => ({
      queryKey: [path ?? ''],
      enabled: path !== undefined,
      placeholderData: keepPreviousData as never,
      refetchInterval:
        typeof refetchMs === 'function'
          ? ({ state }: { readonly state: { readonly data: T | undefined } }) =>
              refetchMs(state.data)
          : (refetchMs ?? (false as const)),
      queryFn: ({ signal }: { readonly signal: AbortSignal }) =>
        read<T>(path ?? '', signal, refetchMs !== undefined),
    }),
    [path, refetchMs],
  );
  const observer = useMemo(() => new QueryObserver<T, unknown>(queries, wanted), []);
  const [result, setResult] = useState(() => observer.getOptimisticResult(withDefaults(wanted)));
  useEffect(() => observer.subscribe(setResult), [observer]);
  useEffect(() => {
    observer.setOptions(wanted);
    setResult(observer.getCurrentResult());
  }, [observer, wanted]);
  // Right after a change of the path the state is still that of the former one.
  return observer.options.queryKey === wanted.queryKey
    ? result
    : observer.getOptimisticResult(withDefaults(wanted));
}

function withDefaults<O extends object>(options: O): never {
  return queries.defaultQueryOptions(options as never) as never;
}

async function read<T>(path: string, signal: AbortSignal, isTimed: boolean): Promise<T> {
  const isRepeated = isTimed && queries.getQueryData([path]) !== undefined;
  if (refreshing.delete(path) || isRepeated) background.add(signal);
  const isBackground = background.has(signal);
  try {
    return await send<T>({ method: 'GET', path }, { signal, isBackground });
  } catch (error) {
    if (error instanceof RequestFailed && error.status === 401) await sessionEnded();
    throw error;
  }
}

/**
 * Reads again what is shown and whose path begins with one of these; in the background only once the tab
 * is not hidden any more.
 */
export function refresh(prefixes: readonly string[], isBackground = false): void {
  const isLater = isBackground && document.hidden;
  void queries.invalidateQueries({
    refetchType: isLater ? 'none' : 'active',
    predicate: (query) => {
      const [path] = query.queryKey;
      if (typeof path !== 'string') return false;
      const isMeant = prefixes.some((prefix) => path.startsWith(prefix));
      // What is not shown is read once somebody opens it.
      if (isMeant && isBackground && !isLater && query.isActive()) refreshing.add(path);
      return isMeant;
    },
  });
}
