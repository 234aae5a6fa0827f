import { request } from 'undici';
import type { Figure } from './bench.ts';
import type { Running } from './leat.ts';
import { wait } from './proc.ts';
import { figure } from './report.ts';
import { quantile } from './rounds.ts';

/** Reads a path of the management API. */
export async function get(
  { url, headers }: Running,
  path: string,
): Promise<Readonly<Record<string, unknown>>> {
  const response = await request(`${url}/api/v2${path}`, { headers });
  const text = await response.body.text();
  if (response.statusCode !== 200) throw new Error(`${path}: ${text}`);
  return JSON.parse(text) as Readonly<Record<string, unknown>>;
}

/** Reads one path after the other; returns the milliseconds that each took. */
export async function readTimes(
  leat: Running,
  path: string | (() => string),
  { count, everySeconds = 0 }: { readonly count: number; readonly everySeconds?: number },
): Promise<number[]> {
  const took: number[] = [];
  while (took.length < count) {
    // The client shares two cores with the server and the database.
    if (everySeconds > 0 || took.length % 50 === 0) await wait(everySeconds);
    const began = performance.now();
    await get(leat, typeof path === 'string' ? path : path());
    took.push(performance.now() - began);
  }
  return took;
}

/** Returns the time that 99 of 100 do not exceed. */
export function readFigure(name: string, took: readonly number[], most?: number): Figure {
  const all = took.length < 100 ? `longest of ${took.length}` : '99 of 100';
  const detail = `${all} requests, one at a time; median ${quantile(took, 0.5).toFixed(1)} ms, longest ${quantile(took, 1).toFixed(1)} ms`;
  return figure(name, 'ms', [quantile(took, 0.99)], { detail, most });
}
