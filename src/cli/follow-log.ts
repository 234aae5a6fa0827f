import { backoffMs } from '../core/backoff.ts';
import { sleep } from '../core/sleep.ts';
import type { ApiRun } from './command.ts';
import { CommandFailed, exitCodes } from './errors.ts';
import type { ApiClient, Query } from './http/api-client.ts';
import { createPageCursor } from './http/pages.ts';

/** The fields of an entry that are shown (docs/http-api.md#audit-log). */
export interface EntryShown {
  readonly log_id: string;
  readonly date: string;
  readonly type: string;
  readonly description: string;
  readonly client_id?: string;
  readonly client_name?: string;
  readonly ip?: string;
  readonly details?: { readonly targets?: readonly string[]; readonly [name: string]: unknown };
  readonly count?: number;
}

export interface FollowOptions {
  /** The filters of the list. */
  readonly query: Query;
  /** Entries of before that are printed at the beginning. */
  readonly firstMax: number;
  readonly print: (entry: EntryShown) => void;
}

const pollMs = 2000;
const retryMsMax = 30_000;

/**
 * An entry may appear this long after its date: its transaction ends later, or a node wrote it late.
 * So each poll reads this much again.
 */
const lateMs = 60_000;

const pageItems = 100;

/** Prints each entry once, oldest first, until the run is interrupted. */
export async function followLog(run: ApiRun, options: FollowOptions): Promise<void> {
  const { api, terminal, clock, signal } = run;
  let seen: Seen | undefined;
  let failedInARow = 0;
  for (;;) {
    try {
      const entries = await readBack(api, options.query, seen?.fromMs, options.firstMax);
      const found = unseen(seen, entries, options.firstMax);
      for (const entry of found.entries) options.print(entry);
      if (seen === undefined) terminal.note(`Following ${api.url}; Ctrl-C ends it.`);
      seen = found.seen;
      failedInARow = 0;
    } catch (error) {
      // A first request that fails points to a wrong option; a later failure may be temporary.
      if (seen === undefined || !isTransient(error)) throw error;
      failedInARow += 1;
      terminal.note(`${error.message} Trying again.`);
    }
    await sleep(clock, backoffMs(failedInARow + 1, { firstMs: pollMs, maxMs: retryMsMax }), signal);
    signal.throwIfAborted();
  }
}

/** What the polls so far have read. */
export interface Seen {
  readonly ids: ReadonlySet<string>;
  /** Entries from this time on are read again. */
  readonly fromMs: number;
}

/**
 * Returns the entries that no poll has read, oldest first, and what was read then. `entries` are those
 * of a poll, newest first; of the first poll the newest `firstMax` count as not read.
 */
export function unseen(
  before: Seen | undefined,
  entries: readonly EntryShown[],
  firstMax: number,
): { readonly entries: readonly EntryShown[]; readonly seen: Seen } {
  const fresh =
    before === undefined
      ? entries.slice(0, firstMax)
      : entries.filter((entry) => isFrom(entry, before.fromMs) && !before.ids.has(entry.log_id));
  const newestMs = entries[0] === undefined ? -Infinity : Date.parse(entries[0].date);
  const fromMs = Math.max(before?.fromMs ?? -Infinity, newestMs - lateMs);
  const kept = entries.filter((entry) => isFrom(entry, fromMs));
  return {
    entries: fresh.toReversed(),
    seen: { ids: new Set(kept.map(({ log_id: id }) => id)), fromMs },
  };
}

function isFrom({ date }: EntryShown, fromMs: number): boolean {
  return Date.parse(date) >= fromMs;
}

/**
 * Reads pages from the newest entry on: as far back as `fromMs`, or, at first, `atLeast` entries and as
 * far as late ones are expected.
 */
async function readBack(
  api: Pick<ApiClient, 'send' | 'url'>,
  query: Query,
  fromMs: number | undefined,
  atLeast: number,
): Promise<EntryShown[]> {
  const entries: EntryShown[] = [];
  const cursor = createPageCursor(api.url);
  let from: string | undefined;
  do {
    const response = await api.send({
      method: 'GET',
      path: '/logs',
      query: { ...query, take: pageItems, from },
    });
    const page = response.body as { readonly logs: readonly EntryShown[]; readonly next?: string };
    entries.push(...page.logs);
    if (isEnough(entries, fromMs, atLeast)) break;
    from = cursor(page.next, page.logs.length);
  } while (from !== undefined);
  return entries;
}

function isEnough(
  entries: readonly EntryShown[],
  fromMs: number | undefined,
  atLeast: number,
): boolean {
  const [newest, oldest] = [entries[0], entries.at(-1)];
  if (newest === undefined || oldest === undefined) return true;
  const oldestMs = Date.parse(oldest.date);
  if (fromMs !== undefined) return oldestMs < fromMs;
  return entries.length >= atLeast && oldestMs < Date.parse(newest.date) - lateMs;
}

function isTransient(error: unknown): error is CommandFailed {
  return error instanceof CommandFailed && error.exitCode === exitCodes.unavailable;
}
