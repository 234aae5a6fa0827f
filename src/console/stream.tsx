import type { StreamHealthShown } from '../schemas/stream-health.ts';
import type { StreamShown } from '../schemas/streams.ts';
import { lazily } from './lazily.tsx';
import { links } from './links.ts';
import { useParameters } from './location.ts';
import { Allowed } from './parts/action.tsx';
import { Badge } from './parts/badge.tsx';
import { Id } from './parts/copy.tsx';
import { Loaded } from './parts/loaded.tsx';
import { Page } from './parts/page.tsx';
import { errorOf, type Read, useRead } from './queries.ts';
import { Received } from './received.tsx';
import { isAllowed } from './session.ts';
import { StateReason } from './state-reason.tsx';
import { StreamActions } from './stream-actions.tsx';
import { StreamAttempts } from './stream-attempts.tsx';
import { StreamOverview } from './stream-overview.tsx';
import type { StreamProps } from './stream-props.ts';
import './stream.css';

const StreamReplays = lazily(async () => (await import('./stream-replays.tsx')).StreamReplays);
const StreamSecrets = lazily(async () => (await import('./stream-secrets.tsx')).StreamSecrets);
const StreamSettings = lazily(async () => (await import('./stream-settings.tsx')).StreamSettings);
const StreamHistory = lazily(async () => (await import('./stream-history.tsx')).StreamHistory);

const tabs = {
  overview: { text: 'Overview', content: StreamOverview },
  attempts: { text: 'Attempts', content: StreamAttempts },
  received: { text: 'Received', content: StreamReceived },
  settings: { text: 'Settings', content: StreamSettings },
  secrets: { text: 'Secrets', content: StreamSecrets },
  replays: { text: 'Replays', content: StreamReplays },
  history: { text: 'History', content: StreamHistory },
} as const;

type Tab = keyof typeof tabs;

/** The page of one stream; its parts are tabs, each with an address. */
export function Stream({ id }: { readonly id: string }) {
  // Nothing of the stream before is shown, or acted on, while another one loads.
  return <StreamPage key={id} id={id} />;
}

function StreamPage({ id }: { readonly id: string }) {
  const health = useRead<StreamHealthShown>(`/event-streams/${id}/health`);
  const stream = useRead<StreamShown>(`/event-streams/${id}`);
  const { data } = health;
  return (
    <Page
      title={data?.name ?? 'Event stream'}
      crumb={{ text: 'Streams', href: links.streams }}
      beside={data === undefined ? null : <State {...data} />}
      actions={data === undefined ? undefined : <StreamActions stream={data} />}
    >
      <Tabs id={id} isInspected={data?.endpoint_host.endsWith('.inspector.invalid') === true} />
      <Loaded read={both(health, stream)} lines={12}>
        {(shown) => <Content {...shown} />}
      </Loaded>
    </Page>
  );
}

/** Returns two reads as one: the first that is missing decides. */
function both(health: Read<StreamHealthShown>, stream: Read<StreamShown>): Read<StreamProps> {
  const data =
    health.data === undefined || stream.data === undefined
      ? undefined
      : { health: health.data, stream: stream.data };
  return { ...(errorOf(health) === null ? stream : health), data } as Read<StreamProps>;
}

function State(health: StreamHealthShown) {
  return (
    <span class="row">
      <Badge state={health.state} />
      <StateReason {...health} />
      <Id value={health.event_stream_id} what="id of the stream" />
    </span>
  );
}

function present(tab: string | undefined): Tab {
  return tab !== undefined && Object.hasOwn(tabs, tab) ? (tab as Tab) : 'overview';
}

function Tabs({ id, isInspected: hasReceived }: { id: string; isInspected: boolean }) {
  const shown = present(useParameters().get('tab'));
  const shownTabs = (Object.keys(tabs) as Tab[]).filter(
    (tab) => tab !== 'received' || (hasReceived && isAllowed('read:events')),
  );
  return (
    <nav class="tabs" aria-label="Parts of the stream">
      {shownTabs.map((tab) => (
        <a
          key={tab}
          href={tab === 'overview' ? links.stream(id) : `${links.stream(id)}?tab=${tab}`}
          {...(tab === shown ? { 'aria-current': 'page' as const } : {})}
        >
          {tabs[tab].text}
        </a>
      ))}
    </nav>
  );
}

function Content(props: StreamProps) {
  const { content: Part } = tabs[present(useParameters().get('tab'))];
  return <Part {...props} />;
}

/** What the receiver inside Leat of a stream got. */
function StreamReceived({ stream }: StreamProps) {
  return (
    <Allowed scope="read:events">
      <Received streamId={stream.id} />
    </Allowed>
  );
}
