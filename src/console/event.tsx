import { useRoute } from 'preact-iso';
import { useState } from 'preact/hooks';
import type { DeliveryShown } from '../schemas/deliveries.ts';
import type { TracedEventShown } from '../schemas/event-log.ts';
import { Attempts } from './attempts.tsx';
import { after } from './clock.ts';
import { quoted } from './command.ts';
import { isTest, publishingOf } from './event-copy.ts';
import './event.css';
import { EventDeliveries, hasEnded, type Sent } from './event-deliveries.tsx';
import { NoEvents } from './events.tsx';
import { links } from './links.ts';
import { useParameters } from './location.ts';
import { SameElsewhere } from './parts/action.tsx';
import { copyText, Id, Json } from './parts/copy.tsx';
import { Loaded, Problem } from './parts/loaded.tsx';
import { Notice } from './parts/notice.tsx';
import { Page, Panel } from './parts/page.tsx';
import { Time } from './parts/time.tsx';
import { utc } from './parts/when.ts';
import { useRead } from './queries.ts';
import { RequestFailed, withQuery } from './request.ts';
import { may, sessionState } from './session.ts';

const crumb = { text: 'Events', href: links.events };

/** An event, and what became of it at each stream. Takes its id, or its idempotency key. */
export function EventPage() {
  const { id = '' } = useRoute().params;
  const { value } = sessionState;
  if (value.kind !== 'signed-in') return null;
  const { session } = value;
  return may(session, 'read:events') ? (
    <Traced key={id} id={id} tenant={session.tenant} />
  ) : (
    <Withheld id={id} />
  );
}

interface TracedProps {
  readonly id: string;
  readonly tenant: string;
}

function Traced({ id, tenant }: TracedProps) {
  const [sent, setSent] = useState<Sent>();
  const from = useParameters().get('from');
  const path = withQuery(`/event-log/${encodeURIComponent(id)}`, { from });
  // What was just sent again is followed until it has ended.
  const read = useRead<TracedEventShown>(path, sent === undefined ? {} : { refetchMs: 1000 });
  if (sent !== undefined && read.data !== undefined && hasEnded(sent, read.data))
    setSent(undefined);
  if (read.data === undefined && read.error instanceof RequestFailed && read.error.status === 404) {
    return <Unknown id={id} />;
  }
  return (
    <Page
      title={read.data?.event.type ?? 'Event'}
      crumb={crumb}
      {...(read.data === undefined
        ? {}
        : { actions: <Copies event={read.data.event} tenant={tenant} /> })}
    >
      <Loaded read={read} lines={12}>
        {(traced) => (
          <>
            <Place {...traced} />
            <div class="event-parts">
              <EventDeliveries traced={traced} onSent={(one) => follow(one, setSent)} />
              <Content traced={traced} id={id} />
            </div>
          </>
        )}
      </Loaded>
    </Page>
  );
}

/** Gives up after a while: the stream may be paused, or its receiver may not respond. */
const followMs = 60_000;

function follow(
  sent: Sent,
  set: (change: (present: Sent | undefined) => Sent | undefined) => void,
) {
  set(() => sent);
  after(followMs, () => set((present) => (present === sent ? undefined : present)));
}

/** Says where the event is when the log does not have it. */
function Place({ event, offset }: TracedEventShown) {
  if (offset !== undefined) return null;
  if (isTest(event)) {
    return (
      <Notice tone="info">
        <p>A test event: it was sent to one stream, and the log never has it.</p>
      </Notice>
    );
  }
  return (
    <Notice tone="warn">
      <p class="strong">The log does not have this event any more.</p>
      <p>
        A delivery of it is still open, and keeps it until that is delivered or dismissed. What
        became of it at other streams is not known any more.
      </p>
    </Notice>
  );
}

function Content({ traced, id }: { readonly traced: TracedEventShown; readonly id: string }) {
  const { event, offset, accepted_at: acceptedAt } = traced;
  return (
    <Panel title="Event">
      <div class="stack">
        <dl class="facts">
          <dt>Id</dt>
          <dd>
            <Id value={event.id} what="event id" />
          </dd>
          {id !== event.id && (
            <>
              <dt>Idempotency key</dt>
              <dd>
                <code>{id}</code>
              </dd>
            </>
          )}
          <dt>Accepted</dt>
          <dd>
            <Instant at={acceptedAt} />
          </dd>
          <dt>Happened</dt>
          <dd>
            <Instant at={event.time} />
          </dd>
          {offset !== undefined && (
            <>
              <dt>Offset</dt>
              <dd>
                <Id value={offset} what="offset" />
              </dd>
            </>
          )}
        </dl>
        <div class="stack-tight">
          <h3>Envelope</h3>
          <Json value={event} what="envelope" />
        </div>
        <SameElsewhere
          request={{ method: 'GET', path: `/event-log/${encodeURIComponent(id)}` }}
          command={`leat why ${quoted(id)}`}
        />
      </div>
    </Panel>
  );
}

function Instant({ at }: { readonly at: string | undefined }) {
  return (
    <span class="stacked">
      <Time at={at} none="not in the log" />
      {at !== undefined && <span class="meta">{utc(at)}</span>}
    </span>
  );
}

interface CopiesProps {
  readonly event: TracedEventShown['event'];
  readonly tenant: string;
}

function Copies({ event, tenant }: CopiesProps) {
  return (
    <>
      <CopyAs
        name="curl"
        title="A command that publishes an event with the same type and data"
        textOf={() => publishingOf(event, tenant, location.origin)}
      />
      <CopyAs name="JSON" title="The envelope" textOf={() => JSON.stringify(event, undefined, 2)} />
    </>
  );
}

interface CopyAsProps {
  readonly name: string;
  readonly title: string;
  readonly textOf: () => string;
}

function CopyAs({ name, title, textOf }: CopyAsProps) {
  const [isCopied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    if (!(await copyText(textOf()))) return;
    setCopied(true);
    after(2000, () => setCopied(false));
  };
  return (
    <button type="button" class="button" title={title} onClick={() => void copy()}>
      {isCopied ? `Copied as ${name}` : `Copy as ${name}`}
    </button>
  );
}

/** Neither the log nor a stream has it: says what that may mean, and what else to try. */
function Unknown({ id }: { readonly id: string }) {
  return (
    <Page title="No such event" crumb={crumb}>
      <div class="stack-tight">
        <p class="wrap-anywhere">
          Neither the log nor an open delivery has an event with the id or idempotency key{' '}
          <code>{id}</code>.
        </p>
        <p>
          It may have been removed: events stay for LEAT_EVENT_RETENTION_DAYS, 7 days unless set
          otherwise, and longer only while a delivery of them is open. Or it is one of another
          tenant, or was never published.
        </p>
      </div>
      <ul class="row">
        <li>
          <a class="button" href={links.events}>
            Search the log
          </a>
        </li>
        <li>
          <a class="button" href={links.failures}>
            Open failures
          </a>
        </li>
      </ul>
      <p class="meta">
        An idempotency key has to be the same to the letter. The receiver's own log may have the id,
        which is the header webhook-id of the request.
      </p>
    </Page>
  );
}

/** For a role without payloads: the failure at one stream, if the address names it. */
function Withheld({ id }: { readonly id: string }) {
  const stream = useParameters().get('stream');
  return (
    <Page title={`Event ${id}`} crumb={crumb}>
      <NoEvents />
      {stream !== undefined && <Failure id={id} stream={stream} />}
    </Page>
  );
}

interface FailureProps {
  readonly id: string;
  readonly stream: string;
}

function Failure({ id, stream }: FailureProps) {
  const path = `/event-streams/${encodeURIComponent(stream)}/deliveries/${encodeURIComponent(id)}`;
  const read = useRead<DeliveryShown>(path);
  const { error } = read;
  if (read.data === undefined && error instanceof RequestFailed && error.status === 404) {
    return (
      <p>
        This stream has no open failure of the event: it may have been delivered, or dismissed.{' '}
        <a href={links.stream(stream)}>The stream</a>
      </p>
    );
  }
  if (read.data === undefined && read.isError) return <Problem error={error} />;
  return (
    <Loaded read={read}>
      {({ event_type: type, attempts, event }) => (
        <Panel title="Failure">
          <div class="stack">
            <dl class="facts">
              <dt>Type</dt>
              <dd>
                <code>{type}</code>
              </dd>
              <dt>Stream</dt>
              <dd>
                <a href={links.stream(stream)}>{stream}</a>
              </dd>
              <dt>Payload</dt>
              <dd>
                {isWithheld(event) ? (
                  'Your role does not see payloads.'
                ) : (
                  <Json value={event} what="envelope" />
                )}
              </dd>
            </dl>
            <Attempts attempts={attempts} stream={stream} />
          </div>
        </Panel>
      )}
    </Loaded>
  );
}

function isWithheld(event: object): boolean {
  return 'withheld' in event && event.withheld === true;
}
