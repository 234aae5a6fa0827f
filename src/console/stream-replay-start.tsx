import { useState } from 'preact/hooks';
import type { EventLogShown } from '../schemas/event-log.ts';
import type { ReplayShown } from '../schemas/replays.ts';
import { now } from './clock.ts';
import { commandWord, quoted } from './command.ts';
import { type Action, ActionDialog, Allowed } from './parts/action.tsx';
import { Loaded } from './parts/loaded.tsx';
import { say } from './parts/notice.tsx';
import { plural } from './parts/numbers.ts';
import { Time } from './parts/time.tsx';
import { utc } from './parts/when.ts';
import { once, refresh, useRead } from './queries.ts';
import { withQuery } from './request.ts';
import type { StreamProps } from './stream-props.ts';

const hourMs = 3_600_000;

/** Starts a replay of a range of the log, and says before what it will send. */
export function StartReplay({
  health,
  stream,
  onClose,
}: StreamProps & { readonly onClose: () => void }) {
  const [from, setFrom] = useState(() => localOf(now() - hourMs));
  const [to, setTo] = useState('');
  const [types, setTypes] = useState('');
  const range = { from: isoOf(from), to: isoOf(to), types: listOf(types) };
  const wanted = stream.subscriptions.map(({ event_type: type }) => type);
  const sent = wanted.filter((type) => range.types.length === 0 || range.types.includes(type));
  const unwanted = range.types.filter((type) => !wanted.includes(type));
  const isReversed = range.from !== undefined && range.to !== undefined && range.to <= range.from;
  return (
    <ActionDialog<ReplayShown>
      title={`Send a past range to ${health.name} again`}
      label="Start the replay"
      action={isReversed || sent.length === 0 ? undefined : actionOf(health, range)}
      onClose={onClose}
      onDone={() => {
        refresh([`/event-streams/${stream.id}`]);
        say('The replay is running.');
      }}
    >
      <p>
        Events that the log still has are sent again with their ids, also those that were delivered,
        after new events and retries. Events with an open failure are left out: redeliver those.
      </p>
      <div class="columns-3">
        <When label="Accepted from" value={from} onInput={setFrom} at={range.from} isRequired />
        <When label="Accepted before" value={to} onInput={setTo} at={range.to} />
      </div>
      {isReversed && <p class="bad">The end must be after the beginning.</p>}
      <label class="field">
        <span class="label">Event types (all of the stream, if empty)</span>
        <input
          value={types}
          spellcheck={false}
          placeholder={wanted.slice(0, 2).join(', ')}
          onInput={({ currentTarget }) => setTypes(currentTarget.value)}
        />
        <span class="hint">Separated by commas.</span>
      </label>
      {wanted.length === 0 ? (
        <p class="warn">The stream has no event types: give it those that are to be sent.</p>
      ) : (
        unwanted.length > 0 && (
          <p class="warn">Not event types of the stream, so not sent: {unwanted.join(', ')}.</p>
        )
      )}
      <Allowed scope="read:events">
        {range.from !== undefined && !isReversed && sent.length > 0 && (
          <WillSend range={range} types={sent} hasFilter={stream.delivery?.filter !== undefined} />
        )}
      </Allowed>
    </ActionDialog>
  );
}

interface Range {
  readonly from: string | undefined;
  readonly to: string | undefined;
  readonly types: readonly string[];
}

function actionOf(health: StreamProps['health'], { from, to, types }: Range): Action | undefined {
  if (from === undefined) return undefined;
  const words = [
    `leat replay start ${commandWord(health)} --since ${from}`,
    ...(to === undefined ? [] : [`--until ${to}`]),
    ...(types.length === 0 ? [] : [`--type ${quoted(types.join(','))}`]),
  ];
  return {
    request: {
      method: 'POST',
      path: `/event-streams/${health.event_stream_id}/replay`,
      body: {
        date_from: from,
        ...(to === undefined ? {} : { date_to: to }),
        ...(types.length === 0 ? {} : { event_types: types }),
      },
    },
    command: words.join(' '),
  };
}

interface WhenProps {
  readonly label: string;
  readonly value: string;
  readonly onInput: (value: string) => void;
  readonly at: string | undefined;
  readonly isRequired?: boolean;
}

function When({ label, value, onInput, at, isRequired }: WhenProps) {
  return (
    <label class="field">
      <span class="label">{label}</span>
      <input
        type="datetime-local"
        value={value}
        required={isRequired === true}
        onInput={({ currentTarget }) => onInput(currentTarget.value)}
      />
      <span class="hint">{at === undefined ? 'Until now, if empty' : utc(at)}</span>
    </label>
  );
}

interface WillSendProps {
  readonly range: Range;
  readonly types: readonly string[];
  readonly hasFilter: boolean;
}

const readMax = 100;

/** Says how many events of the types the range has, up to a hundred. */
function WillSend({ range, types, hasFilter }: WillSendProps) {
  const path = withQuery('/event-log', {
    date_from: range.from,
    date_to: range.to,
    event_types: types.join(','),
    take: readMax,
  });
  const read = useRead<EventLogShown>(path, once);
  return (
    <Loaded read={read} lines={1}>
      {({ events, next }) => (
        <p>
          <strong>
            {next === undefined
              ? plural(events.length, 'event')
              : `More than ${plural(readMax, 'event')}`}
          </strong>{' '}
          of these types in this range
          {events[0] === undefined ? (
            ''
          ) : (
            <>
              , the newest <Time at={events[0].accepted_at} />
            </>
          )}
          .{hasFilter && ' Those that match the filter of the stream are sent.'}
        </p>
      )}
    </Loaded>
  );
}

/** Returns an instant as a field of dates takes it, in the zone of the browser. */
function localOf(atMs: number): string {
  const date = new Date(atMs);
  const local = new Date(atMs - date.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 16);
}

function isoOf(local: string): string | undefined {
  const atMs = Date.parse(local);
  return Number.isNaN(atMs) ? undefined : new Date(atMs).toISOString();
}

function listOf(text: string): string[] {
  return text
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '');
}
