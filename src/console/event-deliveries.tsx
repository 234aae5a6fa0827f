import { useState } from 'preact/hooks';
import type { EventDeliveryShown, TracedEventShown } from '../schemas/event-log.ts';
import { Attempts } from './attempts.tsx';
import { CauseMeaning } from './cause.tsx';
import { causeName } from './cause-name.ts';
import { now } from './clock.ts';
import { commandWord, quoted } from './command.ts';
import { links } from './links.ts';
import { type Action, ActionDialog, Allowed } from './parts/action.tsx';
import { Badge } from './parts/badge.tsx';
import { Pager } from './parts/filters.tsx';
import { say } from './parts/notice.tsx';
import { count } from './parts/numbers.ts';
import { Panel } from './parts/page.tsx';
import { Time } from './parts/time.tsx';
import { refresh } from './queries.ts';
import { Selection } from './selection.tsx';

/** What was sent again, as it was before. */
export interface Sent {
  readonly streamId: string;
  /** When its newest attempt began; undefined without one. */
  readonly newestAt: string | undefined;
}

/** Returns whether what was sent again has been delivered or has failed since. */
export function hasEnded({ streamId, newestAt }: Sent, traced: TracedEventShown): boolean {
  const delivery = traced.deliveries.find(({ event_stream_id: id }) => id === streamId);
  if (delivery === undefined) return true;
  const newest = delivery.attempts.at(-1);
  const isOver = delivery.state === 'delivered' || delivery.state === 'failed';
  return isOver && newest?.status !== 'retrying' && newest?.timestamp !== newestAt;
}

interface EventDeliveriesProps {
  readonly traced: TracedEventShown;
  readonly onSent: (sent: Sent) => void;
}

/** What became of an event at each stream. */
export function EventDeliveries({ traced, onSent }: EventDeliveriesProps) {
  const { deliveries, next } = traced;
  return (
    <Panel title="At each stream" beside={<Counts {...traced} />} isFlush>
      {deliveries.length === 0 ? (
        <p class="empty">
          No stream is subscribed to this type, and none was when it was published.
        </p>
      ) : (
        <ul>
          {deliveries.map((delivery) => (
            <li key={delivery.event_stream_id} class="delivery">
              <Delivery delivery={delivery} traced={traced} onSent={onSent} />
            </li>
          ))}
        </ul>
      )}
      {(next !== undefined || deliveries.length >= 100) && (
        <div class="delivery">
          <Pager shown={deliveries.length} next={next} noun="stream" />
        </div>
      )}
    </Panel>
  );
}

type State = EventDeliveryShown['state'];

function Counts({ counts }: TracedEventShown) {
  return (
    <ul class="row" aria-label="Streams by state">
      {(Object.entries(counts) as [State, number][]).map(([state, streams]) => (
        <li key={state}>
          <Badge state={state} text={`${count(streams)} ${state.replace('_', ' ')}`} />
        </li>
      ))}
    </ul>
  );
}

interface DeliveryProps {
  readonly delivery: EventDeliveryShown;
  readonly traced: TracedEventShown;
  readonly onSent: (sent: Sent) => void;
}

function Delivery({ delivery, traced, onSent }: DeliveryProps) {
  const { event_stream_id: id, name, state, attempts } = delivery;
  return (
    <>
      <div class="delivery-head">
        <span class="row">
          <a class="strong wrap-anywhere" href={links.stream(id)}>
            {name}
          </a>
          <Badge state={state} />
        </span>
        <SendAgain delivery={delivery} traced={traced} onSent={onSent} />
      </div>
      <div class="meta">
        <Words delivery={delivery} />
      </div>
      {state === 'filtered' && <Selection streamId={id} name={name} event={traced.event} />}
      <Attempts attempts={attempts} stream={name} />
    </>
  );
}

/** Says what the state means for this event. */
function Words({ delivery }: { readonly delivery: EventDeliveryShown }) {
  const { event_stream_id: id, state, attempts, next_attempt_at: nextAt } = delivery;
  const newest = attempts.at(-1);
  const failures = (
    <a class="link-underlined" href={links.failuresOfStream(id)}>
      Failures of the stream
    </a>
  );
  switch (state) {
    case 'failed':
      return newest?.error_code === undefined ? (
        <>Not delivered, and not tried again unless somebody sends it.</>
      ) : (
        <>
          <span class="strong">{causeName(newest.error_code)}.</span>{' '}
          <CauseMeaning code={newest.error_code} />
        </>
      );
    case 'retrying':
      return nextAt === undefined ? (
        <>Waits for its next attempt, which comes when the stream is neither paused nor disabled.</>
      ) : (
        <>
          Its next attempt is due <Time at={nextAt} />.
        </>
      );
    case 'in_progress':
      return <>An attempt is under way.</>;
    case 'blocked':
      return (
        <>
          Waits behind an earlier event with its key. It goes on when that one is delivered, or when
          its failure is sent again with success or dismissed. {failures}
        </>
      );
    case 'delivered':
      return delivery.attempts_pruned === true || newest === undefined ? (
        <>Its attempts are not kept any more.</>
      ) : (
        <>
          Accepted by the receiver <Time at={newest.timestamp} />.
        </>
      );
    case 'dismissed':
      return (
        <>
          It failed, and somebody dismissed the failure <Time at={newest?.timestamp} />.
        </>
      );
    case 'skipped':
      return <>The stream was enabled again from a later event on, and this one was left out.</>;
    case 'filtered':
      return <>The subscriptions and the filter of the stream, as they were then, left it out.</>;
    case 'waiting':
      return <>The stream has not come to it yet.</>;
  }
}

/** Waits that are longer are worth a button; an attempt within seconds comes by itself. */
const soonMs = 10_000;

/** The button that sends the event to this stream once more, where that is possible. */
function SendAgain({ delivery, traced, onSent }: DeliveryProps) {
  const [isOpen, setOpen] = useState(false);
  const sending = sendingOf(delivery, traced);
  if (sending === undefined) return null;
  const { event_stream_id: streamId, name, attempts } = delivery;
  return (
    <Allowed scope="update:event_deliveries">
      <button type="button" class="button small" onClick={() => setOpen(true)}>
        {sending.label}
        <span class="visually-hidden"> to {name}</span>
      </button>
      {isOpen && (
        <ActionDialog
          title={`${sending.label} to ${name}`}
          label={sending.label}
          action={sending.action}
          onClose={() => setOpen(false)}
          onDone={() => {
            refresh(['/event-log/', `/event-streams/${streamId}`, '/deliver', '/overview']);
            onSent({ streamId, newestAt: attempts.at(-1)?.timestamp });
            say(`The event is on its way to ${name}.`);
          }}
        >
          <p>{sending.words}</p>
        </ActionDialog>
      )}
    </Allowed>
  );
}

interface Sending {
  readonly label: string;
  readonly words: string;
  readonly action: Action;
}

/** Returns how an event is sent once more in its state; undefined where it cannot be. */
function sendingOf(
  delivery: EventDeliveryShown,
  { event: { id }, offset }: TracedEventShown,
): Sending | undefined {
  const { event_stream_id: streamId, name, state, next_attempt_at: nextAt } = delivery;
  const stream = commandWord({ event_stream_id: streamId, name });
  const request = { method: 'POST', path: `/event-streams/${streamId}/redeliver/${id}` } as const;
  if (state === 'failed') {
    return {
      label: 'Send again',
      words: 'Begins a new series of attempts with the same id. A success ends the failure.',
      action: { request, command: `leat redeliver ${stream} ${quoted(id)}` },
    };
  }
  if (state === 'retrying' && nextAt !== undefined && Date.parse(nextAt) - now() > soonMs) {
    return {
      label: 'Send now',
      words: 'Its next attempt begins now instead of later.',
      action: { request },
    };
  }
  const isOver = state === 'delivered' || state === 'dismissed' || state === 'skipped';
  if (!isOver || offset === undefined) return undefined;
  return {
    label: 'Send again',
    words: `Sends it with the same id, so a receiver that keeps ids can tell${
      state === 'delivered' ? ' that it has it already' : ' what it is'
    }. It is sent if the stream subscribes to its type and its filter matches.`,
    action: {
      request: {
        method: 'POST',
        path: `/event-streams/${streamId}/replay`,
        body: { event_ids: [id] },
      },
      command: `leat replay start ${stream} ${quoted(id)}`,
    },
  };
}
