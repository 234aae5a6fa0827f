import { causeOf, documentBounds, fetchBounded, type FetchDeps } from './bounded-fetch.ts';

/**
 * Fetches a JSON document from another server: 5 s in total, 256 KiB, no redirects. Rejects with an
 * error that names the URL and the cause.
 */
export async function fetchJson(deps: FetchDeps, url: string): Promise<unknown> {
  const headers = { accept: 'application/json' };
  try {
    return await fetchBounded(deps, url, { headers }, documentBounds, async (response, bytes) => {
      if (response.status !== 200) throw new Error(`status ${response.status}`);
      return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(await bytes())) as unknown;
    });
  } catch (error) {
    throw new Error(`${url}: ${causeOf(error)}`, { cause: error });
  }
}
