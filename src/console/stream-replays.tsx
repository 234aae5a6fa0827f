import { useState } from 'preact/hooks';
import type { ReplayShown, ReplaysShown } from '../schemas/replays.ts';
import type { SkippedRangeShown, SkippedRangesShown } from '../schemas/skipped.ts';
import type { StreamHealthShown } from '../schemas/stream-health.ts';
import { commandWord } from './command.ts';
import { useParameters } from './location.ts';
import { ActionDialog, Allowed } from './parts/action.tsx';
import { Badge } from './parts/badge.tsx';
import { Id } from './parts/copy.tsx';
import { Pager } from './parts/filters.tsx';
import { Loaded } from './parts/loaded.tsx';
import { say } from './parts/notice.tsx';
import { count, plural } from './parts/numbers.ts';
import { Panel } from './parts/page.tsx';
import { type Column, Table } from './parts/table.tsx';
import { Time } from './parts/time.tsx';
import { refresh, useRead } from './queries.ts';
import { withQuery } from './request.ts';
import type { StreamProps } from './stream-props.ts';
import { StartReplay } from './stream-replay-start.tsx';

const update = 'update:event_deliveries';

/** Ranges of the log that are sent again, and those that were skipped. */
export function StreamReplays({ health, stream }: StreamProps) {
  const [isStarting, setStarting] = useState(false);
  const id = stream.id;
  const from = useParameters().get('from');
  const path = withQuery(`/event-streams/${id}/replays`, { from });
  const isRunning = health.replay !== null;
  const read = useRead<ReplaysShown>(path, isRunning ? { refetchMs: 1000 } : {});
  return (
    <>
      <Panel
        title="Replays"
        isFlush
        beside={
          <Allowed scope={update}>
            <span class="row">
              <span class="meta">{whyNot(health)}</span>
              <button
                type="button"
                class="button"
                disabled={whyNot(health) !== undefined}
                onClick={() => setStarting(true)}
              >
                Start a replay
              </button>
            </span>
          </Allowed>
        }
      >
        <Loaded read={read} lines={4}>
          {({ replays, next }) => (
            <>
              <Table
                caption="Replays"
                columns={replayColumns(health)}
                rows={replays}
                keyOf={(replay) => replay.id}
                empty="No past range of the log was sent to this stream again."
              />
              {(next ?? from) !== undefined && (
                <div class="panel-body">
                  <Pager shown={replays.length} next={next} noun="replay" />
                </div>
              )}
            </>
          )}
        </Loaded>
      </Panel>
      <Skipped health={health} />
      {isStarting && (
        <StartReplay health={health} stream={stream} onClose={() => setStarting(false)} />
      )}
    </>
  );
}

/** Returns why no replay can begin now. */
function whyNot({ replay, status }: StreamHealthShown): string | undefined {
  if (status === 'disabled') return 'Enable the stream first.';
  return replay === null ? undefined : 'One is running; there is one at a time.';
}

function replayColumns(health: StreamHealthShown): readonly Column<ReplayShown>[] {
  return [
    {
      title: 'Started',
      narrow: 'first',
      cell: ({ id, created_at: at }) => (
        <span class="stacked">
          <Time at={at} />
          <Id value={id} what="id of the replay" />
        </span>
      ),
    },
    { title: 'Status', cell: ({ status }) => <Badge state={status} /> },
    { title: 'Found', isNumber: true, narrow: 'labelled', cell: (replay) => count(replay.matched) },
    { title: 'Delivered', isNumber: true, narrow: 'labelled', cell: ({ sent }) => count(sent) },
    {
      title: 'Failed',
      isNumber: true,
      narrow: 'labelled',
      cell: ({ failed }) => <span class={failed > 0 ? 'bad' : ''}>{count(failed)}</span>,
    },
    { title: 'Ended', narrow: 'labelled', cell: ({ finished_at: at }) => <Time at={at} /> },
    {
      title: 'Actions',
      narrow: 'line',
      cell: (replay) =>
        replay.status === 'running' ? <Cancel health={health} replay={replay} /> : null,
    },
  ];
}

interface CancelProps {
  readonly health: StreamHealthShown;
  readonly replay: ReplayShown;
}

function Cancel({ health, replay: { id, matched, sent } }: CancelProps) {
  const [isOpen, setOpen] = useState(false);
  const stream = health.event_stream_id;
  return (
    <Allowed scope={update}>
      <button type="button" class="button small" onClick={() => setOpen(true)}>
        Cancel<span class="visually-hidden"> the replay {id}</span>
      </button>
      {isOpen && (
        <ActionDialog
          title="Cancel the replay"
          label="Cancel the replay"
          isDanger
          action={{
            request: { method: 'DELETE', path: `/event-streams/${stream}/replay/${id}` },
            command: `leat replay cancel ${commandWord(health)} ${id}`,
          }}
          onClose={() => setOpen(false)}
          onDone={() => {
            refresh([`/event-streams/${stream}`]);
            say('The replay is cancelled.');
          }}
        >
          <p>
            {count(sent)} of {plural(matched, 'event')} found so far are delivered, and stay so. An
            attempt under way ends; no other follows.
          </p>
        </ActionDialog>
      )}
    </Allowed>
  );
}

function Skipped({ health }: { readonly health: StreamHealthShown }) {
  const read = useRead<SkippedRangesShown>(`/event-streams/${health.event_stream_id}/skipped`);
  return (
    <Panel title="Skipped ranges" isFlush>
      <Loaded read={read} lines={2}>
        {({ ranges }) => (
          <Table
            caption="Skipped ranges"
            columns={rangeColumns(health)}
            rows={ranges}
            keyOf={({ from }) => from}
            empty="Nothing was skipped that the log still has. A range is skipped when a stream is enabled again from the newest event on."
          />
        )}
      </Loaded>
    </Panel>
  );
}

function rangeColumns(health: StreamHealthShown): readonly Column<SkippedRangeShown>[] {
  return [
    { title: 'Skipped', narrow: 'first', cell: ({ date }) => <Time at={date} /> },
    {
      title: 'Events',
      isNumber: true,
      narrow: 'labelled',
      cell: (range) => eventsOf(range),
    },
    { title: 'Why', narrow: 'line', cell: () => 'enabled again from the newest event on' },
    {
      title: 'Actions',
      narrow: 'line',
      cell: (range) => <SendRange health={health} range={range} />,
    },
  ];
}

function eventsOf({ events, at_least: atLeast }: SkippedRangeShown): string {
  return `${atLeast ? '≥ ' : ''}${count(events)}`;
}

interface SendRangeProps {
  readonly health: StreamHealthShown;
  readonly range: SkippedRangeShown;
}

function SendRange({ health, range }: SendRangeProps) {
  const [isOpen, setOpen] = useState(false);
  const { event_stream_id: id } = health;
  const isBusy = whyNot(health) !== undefined;
  // No event of the range was accepted later; the end is exclusive.
  const until = new Date(Date.parse(range.date) + 1).toISOString();
  return (
    <Allowed scope={update}>
      <button type="button" class="button small" disabled={isBusy} onClick={() => setOpen(true)}>
        Send these<span class="visually-hidden"> {eventsOf(range)} events</span>
      </button>
      {isOpen && (
        <ActionDialog<ReplayShown>
          title={`Send what ${health.name} skipped`}
          label={`Send ${eventsOf(range)}`}
          action={{
            request: {
              method: 'POST',
              path: `/event-streams/${id}/replay`,
              body: { from: range.from, date_to: until },
            },
            command: `leat replay start ${commandWord(health)} --from ${range.from} --until ${until}`,
          }}
          onClose={() => setOpen(false)}
          onDone={() => {
            refresh([`/event-streams/${id}`]);
            say('The skipped events are being sent.');
          }}
        >
          <p>
            {range.at_least ? 'At least ' : ''}
            {plural(range.events, 'event')} that the stream passed over <Time at={range.date} /> are
            sent, after new events and retries. Events of types that it no longer wants, or that its
            filter keeps away now, are not.
          </p>
        </ActionDialog>
      )}
    </Allowed>
  );
}
