import type { Clock } from '../core/clock.ts';
import { formatTime } from '../core/date.ts';
import { printable } from '../core/setting.ts';

/** Colours a text, or returns it unchanged. */
export type Colour = (format: 'dim' | 'yellow' | 'red', text: string) => string;

/** An entry as pino writes it. */
interface Entry {
  readonly level: number;
  readonly time: number;
  readonly msg?: string;
  readonly [field: string]: unknown;
}

export const failureMessage = 'delivery failed';

/** Messages of which there may be thousands in a second, and how several are called. */
const counted: Readonly<Record<string, string>> = {
  [failureMessage]: 'deliveries failed',
  // Of a check of the failures that are open.
  'open failure': 'open failures',
};

const summaryEveryMs = 1000;
const groupsMax = 3;

/** Writes entries as text for a person. */
export interface TextLog {
  /** Writes an entry, a line of JSON. Failures of a second become one line. */
  write(line: string): void;
  /** Writes failures that wait for the end of their second. */
  flush(): void;
}

export interface TextLogDeps {
  readonly clock: Pick<Clock, 'after'>;
  readonly write: (text: string) => void;
  readonly colour: Colour;
}

/** Creates a log as text. */
export function createTextLog({ clock, write, colour }: TextLogDeps): TextLog {
  const waiting = new Map<string, Failures>();
  const flush = (): void => {
    for (const failures of waiting.values()) {
      write(
        failures.total === 1 ? entryText(failures.first, colour) : summaryText(failures, colour),
      );
    }
    waiting.clear();
  };
  return {
    write: (line) => {
      const entry = JSON.parse(line) as Entry;
      const { msg = '' } = entry;
      if (!Object.hasOwn(counted, msg)) {
        write(entryText(entry, colour));
        return;
      }
      if (waiting.size === 0) clock.after(summaryEveryMs, flush);
      const failures = waiting.get(msg) ?? { first: entry, total: 0, groups: new Map() };
      waiting.set(msg, added(failures, entry));
    },
    flush,
  };
}

/** Returns the text of an entry: time of day in UTC, level, message, fields, then the trace of an error. */
export function entryText(entry: Entry, colour: Colour): string {
  const { level, time, msg = '', err, alert, tenant, tenantName, ...fields } = entry;
  const error = Object(err) as { readonly message?: unknown; readonly stack?: unknown };
  const shown = {
    tenant: tenantName ?? tenant,
    ...fields,
    error: fields['error'] ?? error.message,
    next: (Object(alert) as { readonly next_command?: unknown }).next_command,
  };
  const parts = Object.entries(shown).flatMap(([name, value]) =>
    value === undefined || lessUseful.has(name) ? [] : `${name}=${valueText(value)}`,
  );
  const head = headText(level, time, colour);
  const line = `${[head, printable(msg), colour('dim', parts.join(' '))].filter(Boolean).join('  ')}\n`;
  const { stack } = error;
  return level >= errorLevel && typeof stack === 'string' ? `${line}${traceText(stack)}` : line;
}

/** Fields of attempts that would fill a second line of a terminal; the log as JSON has them. */
const lessUseful: ReadonlySet<string> = new Set(['deliveryKind', 'durationMs', 'sincePublishedMs']);

/** Failures of a second with the same message. */
interface Failures {
  readonly first: Entry;
  readonly total: number;
  /** Counts by tenant, stream and cause. */
  readonly groups: Map<string, number>;
}

/** Streams that fail in the same second beyond it are counted in the total only. */
const groupsCountedMax = 1000;

function added({ first, total, groups }: Failures, entry: Entry): Failures {
  const group = groupOf(entry);
  const count = groups.get(group);
  if (count !== undefined || groups.size < groupsCountedMax) groups.set(group, (count ?? 0) + 1);
  return { first, total: total + 1, groups };
}

/** Returns the text of several failures: how many, then the streams and causes with the most. */
function summaryText({ first, total, groups }: Failures, colour: Colour): string {
  const sorted = [...groups].toSorted(([, one], [, other]) => other - one);
  const largest = sorted.slice(0, groupsMax).map(([group, count]) => `${group} ×${count}`);
  const left = groups.size - largest.length;
  const more = left > 0 ? [`and ${left} more`] : [];
  const { level, time, msg = '' } = first;
  const head = headText(level, time, colour);
  return `${head}  ${total} ${counted[msg] ?? msg}  ${colour('dim', [...largest, ...more].join(', '))}\n`;
}

function groupOf({ tenantName, tenant, stream, error }: Entry): string {
  return [tenantName ?? tenant, stream, error ?? 'unknown'].map(valueText).join(' ');
}

const errorLevel = 50;

/** Names of pino's levels. */
const levels: Readonly<Record<number, readonly [name: string, format?: 'dim' | 'yellow' | 'red']>> =
  {
    10: ['trace', 'dim'],
    20: ['debug', 'dim'],
    30: ['info'],
    40: ['warn', 'yellow'],
    50: ['error', 'red'],
    60: ['fatal', 'red'],
  };

function headText(level: number, time: number, colour: Colour): string {
  const [name, format] = levels[level] ?? [String(level)];
  const padded = name.padEnd(5);
  const clockTime = `${formatTime(time).slice(11, 19)}Z`;
  return `${colour('dim', clockTime)}  ${format === undefined ? padded : colour(format, padded)}`;
}

const valueCharactersMax = 200;

function valueText(value: unknown): string {
  const text = printable(typeof value === 'string' ? value : (JSON.stringify(value) ?? ''));
  const cut = text.length > valueCharactersMax ? `${text.slice(0, valueCharactersMax)}…` : text;
  return typeof value === 'string' && /[\s="]/.test(cut) ? JSON.stringify(cut) : cut;
}

function traceText(stack: string): string {
  const [, ...lines] = stack.split('\n');
  return lines.map((line) => `    ${printable(line.trim())}\n`).join('');
}
