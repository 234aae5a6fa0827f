import type { Clock } from '../core/clock.ts';

const TIMEOUT_MS = 5_000;
const BYTES_MAX = 256 * 1024;

export interface FetchJsonDeps {
  /** The `fetch` of the platform. */
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
  readonly clock: Pick<Clock, 'after'>;
}

/**
 * Fetches a JSON document from another server: 5 s in total, 256 KiB, no redirects. Rejects with an
 * error that names the URL and the cause.
 */
export async function fetchJson({ fetch, clock }: FetchJsonDeps, url: string): Promise<unknown> {
  const abort = new AbortController();
  const timeOut = (): void => abort.abort(new Error(`no response within ${TIMEOUT_MS} ms`));
  const timer = clock.after(TIMEOUT_MS, timeOut);
  try {
    const headers = { accept: 'application/json' };
    const response = await fetch(url, { redirect: 'error', signal: abort.signal, headers });
    if (response.status !== 200) throw new Error(`status ${response.status}`);
    return JSON.parse(await textOf(response));
  } catch (error) {
    throw new Error(`${url}: ${messageOf(error)}`, { cause: error });
  } finally {
    timer.cancel();
    // Closes the connection if the body was not read to its end.
    abort.abort();
  }
}

/** Counts bytes while reading: a `Content-Length` cannot be trusted. */
async function textOf({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    bytes += chunk.byteLength;
    if (bytes > BYTES_MAX) throw new Error(`more than ${BYTES_MAX} bytes`);
    chunks.push(chunk);
  }
  return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks));
}

/** The error of `fetch` says only that it failed; its cause says why. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? error.cause.message : error.message;
}
