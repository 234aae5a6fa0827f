import { useState } from 'preact/hooks';
import type { AttemptShown } from '../schemas/event-log.ts';
import './attempts.css';
import { causeName } from './cause-name.ts';
import { Badge } from './parts/badge.tsx';
import { duration } from './parts/numbers.ts';
import { plainText } from './parts/plain-text.ts';
import { type Column, Table } from './parts/table.tsx';
import { PreciseTime } from './parts/time.tsx';
import './parts/folds.css';

interface AttemptsProps {
  /** Oldest first, as the server returns them. */
  readonly attempts: readonly AttemptShown[];
  /** Name of the stream, to tell tables apart. */
  readonly stream: string;
}

/** Attempts that are shown at first. */
const newestMax = 5;
/** The server returns the newest ones only. */
const returnedMax = 20;

/** Attempts of one event at one stream, newest first. */
export function Attempts({ attempts, stream }: AttemptsProps) {
  const [isAll, setAll] = useState(false);
  if (attempts.length === 0) return null;
  const newestFirst = attempts.toReversed();
  const shown = isAll ? newestFirst : newestFirst.slice(0, newestMax);
  return (
    <div class="stack-tight attempts folds">
      <Table
        caption={`Attempts at ${stream}`}
        isCompact
        columns={columns}
        rows={shown}
        keyOf={({ timestamp, status }) => `${timestamp} ${status}`}
      />
      {shown.length < attempts.length && (
        <div>
          <button type="button" class="button small" onClick={() => setAll(true)}>
            Show all {attempts.length} attempts
            <span class="visually-hidden"> at {stream}</span>
          </button>
        </div>
      )}
      {isAll && attempts.length >= returnedMax && (
        <span class="meta">Earlier ones are not returned.</span>
      )}
    </div>
  );
}

const columns: readonly Column<AttemptShown>[] = [
  { title: 'Attempt', isNumber: true, narrow: 'labelled', cell: ({ attempt }) => attempt ?? '–' },
  {
    title: 'Time',
    cell: ({ timestamp: at }) => <PreciseTime at={at} />,
  },
  { title: 'Result', cell: (attempt) => <Result {...attempt} /> },
  {
    title: 'Duration',
    isNumber: true,
    cell: ({ duration: ms }) => (ms === undefined ? '–' : duration(ms)),
  },
  {
    title: 'HTTP',
    isNumber: true,
    narrow: 'labelled',
    cell: ({ http_status: status }) => status ?? '–',
  },
  {
    title: 'Error',
    narrow: 'line',
    cell: ({ error_message: message, error_code: code }) =>
      message !== undefined && (
        <span class="message">
          {code !== undefined && !code.startsWith('http_') && (
            <span class="strong">{causeName(code)}: </span>
          )}
          {plainText(message)}
        </span>
      ),
  },
];

function Result({ status }: Pick<AttemptShown, 'status'>) {
  if (status === 'retrying') return <Badge state="retrying" text="redelivery accepted" />;
  return <Badge state={status} />;
}
