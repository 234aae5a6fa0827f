import { signal } from '@preact/signals';
import {
  keepPreviousData,
  QueryClient,
  QueryObserver,
  type QueryObserverResult,
} from '@tanstack/query-core';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { type CachedResponse, readAgain, RequestFailed } from './request.ts';
import { sessionEnded } from './session.ts';

/** How often what a page shows is read again while the tab is visible. */
const everyMs = 5_000;

/**
 * Reads that are shared by all parts of a page, by the path of their request. A hidden tab reads nothing; once
 * it is visible again, it reads at once.
 */
export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      gcTime: 300_000,
      refetchOnWindowFocus: true,
      retry: (_count, error) => isPassing(error),
      retryDelay: (count) => Math.min(1_000 * 2 ** count, everyMs),
      networkMode: 'always',
    },
  },
});

/** Whether an error may be gone when the request is repeated. */
function isPassing(error: unknown): boolean {
  return error instanceof RequestFailed && (error.status === 0 || error.status === 503);
}

/** Whether no response arrives to what is shown: pages say that they are not live. */
export const isAway = signal(false);

queries.getQueryCache().subscribe(() => {
  isAway.value = queries
    .getQueryCache()
    .findAll({ type: 'active' })
    .map(({ state }) => state.fetchFailureReason)
    .some((error: unknown) => error instanceof RequestFailed && error.status === 0);
});

export type Read<T> = QueryObserverResult<T, unknown>;

/** Returns why something could not be read, also while that is tried again; not yet after a first failure. */
export function errorOf({ error, failureCount, failureReason }: Read<unknown>): unknown {
  return error ?? (failureCount > 2 ? failureReason : null);
}

/** Paths that somebody has opened and that are not read yet; nobody has asked for any other read. */
const asked = new Set<string>();

interface ReadOptions<T> {
  /** How often it is read again, instead of every 5 s; false for never. */
  readonly refetchMs?: number | false | ((data: T) => number | false);
}

/** For what is read when somebody opens it, and not again. */
export const once = { refetchMs: false } as const;

/**
 * Reads a path of the management API, and again every 5 s. Without a path nothing is read. While the path
 * changes, as another page of a list does, the former data stay.
 */
export function useRead<T>(
  path: string | undefined,
  { refetchMs = everyMs }: ReadOptions<T> = {},
): Read<T> {
  useMemo(() => path !== undefined && asked.add(path), [path]);
  const wanted = useMemo(
    () => ({
      queryKey: [path ?? ''],
      enabled: path !== undefined,
      placeholderData: keepPreviousData as never,
      // What was never read is shown as an error, which another try in the background would hide.
      refetchInterval: ({
        state: { data },
      }: {
        readonly state: { readonly data: CachedResponse<T> | undefined };
      }) =>
        data !== undefined && (typeof refetchMs === 'function' ? refetchMs(data.body) : refetchMs),
      queryFn: ({ signal: ending }: { readonly signal: AbortSignal }) =>
        read<T>(path ?? '', ending),
      select: bodyOf<T>,
    }),
    [path, refetchMs],
  );
  const observer = useMemo(
    () => new QueryObserver<CachedResponse<T>, unknown, T>(queries, wanted),
    [],
  );
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

function bodyOf<T>({ body }: CachedResponse<T>): T {
  return body;
}

function withDefaults<O extends object>(options: O): never {
  return queries.defaultQueryOptions(options as never) as never;
}

async function read<T>(path: string, ending: AbortSignal): Promise<CachedResponse<T>> {
  const isBackground = !asked.has(path);
  try {
    const kept = queries.getQueryData<CachedResponse<T>>([path]);
    const present = await readAgain(path, kept, { signal: ending, isBackground });
    asked.delete(path);
    return present;
  } catch (error) {
    if (!isPassing(error)) asked.delete(path);
    if (error instanceof RequestFailed && error.status === 401) await sessionEnded();
    throw error;
  }
}

/** Reads again what is shown and whose path begins with one of these. */
export function refresh(prefixes: readonly string[]): void {
  void queries.invalidateQueries({
    predicate: ({ queryKey: [path] }) =>
      typeof path === 'string' && prefixes.some((prefix) => path.startsWith(prefix)),
  });
}
