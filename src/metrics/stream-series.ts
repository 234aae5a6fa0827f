import type { Clock } from '../core/clock.ts';
import type { DeliveryReport } from '../delivery/report.ts';
import type { Hint } from '../store/port/hints.ts';
import type { Store } from '../store/port/store.ts';
import type { MetricFactory } from './metric-factory.ts';
import { type Counts, StreamCounts } from './stream-counts.ts';

/** The names of tenants and streams. */
export interface StreamNames {
  readonly tenants: Pick<Store['tenants'], 'list'>;
  readonly streams: Pick<Store['streams'], 'names'>;
}

/** The attempts of single streams. */
export interface StreamSeries {
  report(report: DeliveryReport): void;
  /** Learns that streams were renamed or deleted. */
  hint(hint: Hint): void;
  /** Sets the values; does not wait for the store. */
  collect(): void;
}

export interface StreamSeriesDeps {
  readonly names: StreamNames;
  readonly streamsMax: number;
  readonly clock: Pick<Clock, 'elapsedMs'>;
}

/** Creates the metrics that count the attempts of single streams. */
export function createStreamSeries(
  factory: MetricFactory,
  { names, streamsMax, clock }: StreamSeriesDeps,
): StreamSeries {
  const attempts = factory.counter(
    'stream_attempts_total',
    'Attempts that ended, by stream, outcome and code; those of streams without series of their own under the stream other.',
    ['tenant', 'stream', 'outcome', 'code'],
  );
  const info = factory.gauge('stream_info', 'Always 1; the label has the name of the stream.', [
    'tenant',
    'stream',
    'name',
  ]);
  const counts = new StreamCounts(streamsMax, () => clock.elapsedMs());
  const nameCache = createNameCache(names, counts);

  const set = (tenant: string, stream: string, values: Counts): void => {
    for (const [key, value] of values) {
      const [outcome = '', code = ''] = key.split(' ');
      attempts.inc({ tenant, stream, outcome, code }, value);
    }
  };

  return {
    report: (report) => {
      if (report.kind === 'attempt') {
        if (counts.count(report)) nameCache.check([report.stream]);
      } else if (report.kind === 'stream_lost' || report.kind === 'stream_owned') {
        if (!counts.has(report.stream)) return;
        counts.setOwned(report.stream, report.kind === 'stream_owned');
        nameCache.check([report.stream]);
      }
    },
    hint: (hint) => {
      if (hint.kind === 'stream' && counts.has(hint.stream)) nameCache.note([hint.stream]);
      if (hint.kind === 'tenants' || hint.kind === 'missed' || hint.kind === 'replaced') {
        nameCache.note([...counts.shown()].map(({ stream }) => stream));
      }
    },
    collect: () => {
      nameCache.check(counts.rebalance());
      attempts.reset();
      info.reset();
      set('', 'other', counts.others);
      for (const { stream, counts: own } of counts.shown()) {
        const known = nameCache.of(stream);
        if (known === undefined) continue;
        set(known.tenant, stream, own);
        info.set({ ...known, stream }, 1);
      }
    },
  };
}

interface NameCache {
  /** Has the names of these streams read again at the next check: hints may be frequent. */
  note(streams: readonly string[]): void;
  /** Reads the names of these and of noted streams soon; those that are deleted lose their counts. */
  check(streams: readonly string[]): void;
  /** Returns the last known names; `undefined` before they were read. */
  of(stream: string): { readonly tenant: string; readonly name: string } | undefined;
}

/** Keeps the names of shown streams. A read that fails is repeated with the next one. */
function createNameCache({ tenants, streams }: StreamNames, counts: StreamCounts): NameCache {
  const known = new Map<string, { readonly tenant: string; readonly name: string }>();
  const unchecked = new Set<string>();
  let reading = false;

  const read = async (): Promise<void> => {
    const tenantNames = new Map((await tenants.list()).map(({ id, name }) => [id, name]));
    const wanted = [...counts.shown()].filter(({ stream }) => unchecked.has(stream));
    unchecked.clear();
    for (const [tenant, own] of Map.groupBy(wanted, (each) => each.tenant)) {
      const ids = own.map(({ stream }) => stream);
      const tenantName = tenantNames.get(tenant);
      try {
        const found = tenantName === undefined ? noNames : await streams.names(tenant, ids);
        for (const id of ids) {
          const name = found.get(id);
          if (name === undefined) counts.forget(id);
          else if (tenantName !== undefined) known.set(id, { tenant: tenantName, name });
        }
      } catch (error) {
        for (const { stream } of wanted) unchecked.add(stream);
        throw error;
      }
    }
    const shown = new Set([...counts.shown()].map(({ stream }) => stream));
    for (const id of known.keys()) if (!shown.has(id)) known.delete(id);
  };

  const readAll = async (): Promise<void> => {
    reading = true;
    try {
      while (unchecked.size > 0) await read();
    } catch {
      // The store is unavailable, which other metrics report.
    } finally {
      reading = false;
    }
  };

  const note = (ids: readonly string[]): void => {
    for (const id of ids) unchecked.add(id);
  };

  return {
    note,
    check: (ids) => {
      note(ids);
      if (!reading && unchecked.size > 0) void readAll();
    },
    of: (stream) => known.get(stream),
  };
}

const noNames: ReadonlyMap<string, string> = new Map();
