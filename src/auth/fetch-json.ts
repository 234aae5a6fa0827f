import type { Clock } from '../core/clock.ts';

const TIMEOUT_MS = 5_000;
const BYTES_MAX = 256 * 1024;

export interface FetchJsonDeps {
  /** The platform's `fetch`, as an argument. */
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
  readonly clock: Pick<Clock, 'after'>;
}

/**
 * Fetches a JSON document of another server: 5 s in all, 256 KiB, no redirects. Rejects with an
 * error that says why there is none.
 */
export async function fetchJson({ fetch, clock }: FetchJsonDeps, url: string): Promise<unknown> {
  const abort = new AbortController();
  const late = (): void => abort.abort(new Error(`no answer within ${TIMEOUT_MS} ms`));
  const timer = clock.after(TIMEOUT_MS, late);
  try {
    const headers = { accept: 'application/json' };
    const answer = await fetch(url, { redirect: 'error', signal: abort.signal, headers });
    if (answer.status !== 200) throw new Error(`status ${answer.status}`);
    return JSON.parse(await textOf(answer));
  } catch (error) {
    throw new Error(`${url}: ${messageOf(error)}`, { cause: error });
  } finally {
    timer.cancel();
    // Ends the connection where the body was not read to its end.
    abort.abort();
  }
}

/** Counts while it reads: what a server says of the length of its body proves nothing. */
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

/** `fetch` says only that it failed; its cause says why. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? error.cause.message : error.message;
}
