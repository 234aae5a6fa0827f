import type { Clock } from '../core/clock.ts';

export interface FetchDeps {
  /** The `fetch` of the platform. */
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
  readonly clock: Pick<Clock, 'after'>;
}

export interface FetchBounds {
  /** From the request to the end of the response. */
  readonly timeoutMs: number;
  /** Of the body, decompressed. */
  readonly bytesMax: number;
}

/** Bounds of documents of other servers. */
export const documentBounds: FetchBounds = { timeoutMs: 5_000, bytesMax: 256 * 1024 };

/**
 * Sends a request to another server within bounds, follows no redirect, and returns what `read` makes of
 * the response. `bytes` reads the body. The connection is closed if the body was not read to its end.
 */
export async function fetchBounded<T>(
  { fetch, clock }: FetchDeps,
  url: string,
  init: Omit<RequestInit, 'redirect' | 'signal'>,
  { timeoutMs, bytesMax }: FetchBounds,
  read: (response: Response, bytes: () => Promise<Buffer<ArrayBuffer>>) => Promise<T>,
): Promise<T> {
  const abort = new AbortController();
  const timeOut = (): void => abort.abort(new Error(`no response within ${timeoutMs} ms`));
  const timer = clock.after(timeoutMs, timeOut);
  try {
    const response = await fetch(url, { ...init, redirect: 'error', signal: abort.signal });
    return await read(response, () => bytesOf(response, bytesMax));
  } finally {
    timer.cancel();
    abort.abort();
  }
}

/** Counts bytes while reading: a `Content-Length` cannot be trusted. */
async function bytesOf({ body }: Response, bytesMax: number): Promise<Buffer<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    bytes += chunk.byteLength;
    if (bytes > bytesMax) throw new Error(`more than ${bytesMax} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Returns why a request failed: the error of `fetch` says only that it did; its cause says why. */
export function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? error.cause.message : error.message;
}
