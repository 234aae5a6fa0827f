import type { StreamShown } from '../schemas/streams.ts';
import type { ReceivedShown } from '../schemas/received.ts';
import { links } from './links.ts';
import { useParameters } from './location.ts';
import { type Action, Allowed, SameElsewhere, useSending } from './parts/action.tsx';
import { Badge } from './parts/badge.tsx';
import { Loaded, Problem } from './parts/loaded.tsx';
import { Notice } from './parts/notice.tsx';
import { Page, Panel } from './parts/page.tsx';
import { refresh, useRead } from './queries.ts';
import { ReceivedRequest } from './received.tsx';

/** Leads from nothing to the first signed request in three clicks: begin, make a stream, send. */
export function FirstDelivery() {
  const stream = useParameters().get('stream');
  return (
    <Page title="First delivery">
      <Allowed
        scope="create:event_streams"
        otherwise={
          <Notice tone="info">Your role may not create streams. Ask an operator of Leat.</Notice>
        }
      >
        <Panel
          title="1. A stream to a receiver inside Leat"
          beside={<Done isDone={stream !== undefined} />}
        >
          <MakeStream isDone={stream !== undefined} />
        </Panel>
        {stream !== undefined && <SendTest streamId={stream} />}
      </Allowed>
    </Page>
  );
}

function Done({ isDone }: { readonly isDone: boolean }) {
  return isDone ? <Badge state="done" /> : null;
}

const makeStream: Action = {
  request: {
    method: 'POST',
    path: '/event-streams',
    body: {
      name: 'first',
      subscriptions: [{ event_type: 'user.created' }],
      destination: {
        type: 'webhook',
        configuration: {
          webhook_endpoint: 'https://new.inspector.invalid/',
          webhook_authorization: { method: 'bearer', token: 'a token of yours' },
        },
      },
      delivery: { retry: 'hours' },
    },
  },
  command: 'leat streams create --name first --events user.created --inspect',
};

function MakeStream({ isDone }: { readonly isDone: boolean }) {
  const parameters = useParameters();
  const { isSending, error, start } = useSending<StreamShown>(({ id }) => {
    refresh(['/overview', '/stream-health']);
    parameters.go({ stream: id });
  });
  return (
    <div class="stack">
      <p>
        A stream named <code>first</code> that receives <code>user.created</code>. Its endpoint is
        inside Leat: events are signed and sent as to any webhook, and nothing leaves this machine.
      </p>
      {error !== undefined && <Problem error={error} />}
      {!isDone && (
        <div>
          <button
            type="button"
            class="button primary"
            aria-disabled={isSending}
            onClick={() => void start(makeStream)}
          >
            Make the stream
          </button>
        </div>
      )}
      <SameElsewhere {...makeStream} />
    </div>
  );
}

function SendTest({ streamId }: { readonly streamId: string }) {
  const path = `/event-streams/${streamId}/received`;
  const read = useRead<ReceivedShown>(path, { refetchMs: 500 });
  const { isSending, error, start } = useSending<unknown>(() => refresh([path]));
  const action: Action = {
    request: {
      method: 'POST',
      path: `/event-streams/${streamId}/test`,
      body: { event_type: 'user.created' },
    },
    command: 'leat test first --inspect',
  };
  const newest = read.data?.received[0];
  return (
    <>
      <Panel title="2. An event" beside={<Done isDone={newest !== undefined} />}>
        <div class="stack">
          <p>A sample user is announced to this stream.</p>
          {error !== undefined && <Problem error={error} />}
          <div>
            <button
              type="button"
              class={newest === undefined ? 'button primary' : 'button'}
              aria-disabled={isSending}
              onClick={() => void start(action)}
            >
              {newest === undefined ? 'Send a test event' : 'Send another one'}
            </button>
          </div>
          <SameElsewhere {...action} />
        </div>
      </Panel>
      <Panel
        title="3. The signed request, as it arrived"
        beside={<Done isDone={newest !== undefined} />}
      >
        <Loaded read={read}>
          {() =>
            newest === undefined ? (
              <p class="muted">It will be shown here.</p>
            ) : (
              <div class="stack">
                <ReceivedRequest request={newest} isOpen />
                <NextSteps streamId={streamId} />
              </div>
            )
          }
        </Loaded>
      </Panel>
    </>
  );
}

function NextSteps({ streamId }: { readonly streamId: string }) {
  return (
    <ul class="stack-tight">
      <li>
        <a href={`${links.stream(streamId)}?tab=settings`}>Give the stream an endpoint of yours</a>
      </li>
      <li>
        <a href={`${links.publish}?receiver=${streamId}`}>
          Publish events, and let the receiver answer with an error
        </a>
      </li>
      <li>
        <a href={links.overview}>See the overview</a>
      </li>
    </ul>
  );
}
