import { useEffect, useRef, useState } from 'preact/hooks';
import { useLocation } from 'preact-iso';
import type { StreamShown } from '../schemas/streams.ts';
import type { Condition } from './filter-words.ts';
import { links } from './links.ts';
import { useParameters } from './location.ts';
import { ActionDialog, Allowed } from './parts/action.tsx';
import { Json } from './parts/copy.tsx';
import { say } from './parts/notice.tsx';
import { count, plural } from './parts/numbers.ts';
import { Panel } from './parts/page.tsx';
import { Time } from './parts/time.tsx';
import { refresh } from './queries.ts';
import { RetryPicture } from './retry-picture.tsx';
import { delaysSecondsOf, retryWords } from './retry-times.ts';
import { useServiceDelays } from './service-retry.ts';
import { isAllowed } from './session.ts';
import { StreamForm } from './stream-form.tsx';
import type { StreamProps } from './stream-props.ts';
import { EventTypes, FilterInWords, orderWords } from './stream-facts.tsx';
import { commandWord } from './command.ts';
import { keepUnsaved, unsavedOf } from './unsaved.ts';

const update = 'update:event_streams';

/** The settings of a stream, to be read, or changed by those who may. */
export function StreamSettings({ health, stream }: StreamProps) {
  const isEdited = useParameters().get('edit') !== undefined;
  const wasEdited = useRef(false);
  const { route } = useLocation();
  const address = `${links.stream(stream.id)}?tab=settings`;
  if (!isEdited || !isAllowed(update)) {
    return <ReadView {...{ health, stream }} takesFocus={wasEdited.current} />;
  }
  wasEdited.current = true;
  return <StreamForm stream={stream} onClose={() => route(address)} />;
}

function ReadView({ health, stream, takesFocus }: StreamProps & { takesFocus: boolean }) {
  const edit = useRef<HTMLAnchorElement>(null);
  useEffect(() => {
    if (takesFocus) edit.current?.focus();
  }, []);
  return (
    <div class="settings">
      <Allowed scope={update}>
        <div class="row row-spread">
          <p class="muted">What the stream sends, where, and how.</p>
          <a ref={edit} class="button" href={`${links.stream(stream.id)}?tab=settings&edit=yes`}>
            {unsavedOf(stream.id) === undefined ? 'Edit settings' : 'Go on with unsaved changes'}
          </a>
        </div>
      </Allowed>
      <General {...stream} />
      <Destination {...stream} />
      <Retries {...stream} />
      <Selection {...stream} />
      <Requests {...stream} />
      <Allowed scope={update}>
        <Deletion {...{ health, stream }} />
      </Allowed>
    </div>
  );
}

function General({ name, subscriptions, created_at: created, updated_at: updated }: StreamShown) {
  return (
    <Panel title="Name and events">
      <dl class="facts">
        <dt>Name</dt>
        <dd>{name}</dd>
        <dt>Event types</dt>
        <dd>
          <EventTypes types={subscriptions.map(({ event_type: type }) => type)} />
        </dd>
        <dt>Created</dt>
        <dd>
          <Time at={created} />
        </dd>
        <dt>Changed</dt>
        <dd>
          <Time at={updated} />
        </dd>
      </dl>
    </Panel>
  );
}

function Destination({ destination: { configuration } }: StreamShown) {
  const { webhook_endpoint: endpoint, webhook_authorization: authorization } = configuration;
  const { client_certificate: certificate } = configuration;
  return (
    <Panel title="Endpoint">
      <dl class="facts">
        <dt>URL</dt>
        <dd>
          <code>{endpoint}</code>
        </dd>
        <dt>Authorization</dt>
        <dd>{authorizationWords(authorization)}</dd>
        {authorization.method === 'oauth2_client_credentials' && (
          <>
            <dt>Tokens from</dt>
            <dd>
              <code>{authorization.token_endpoint}</code>
            </dd>
          </>
        )}
        <dt>Client certificate</dt>
        <dd>
          {certificate === undefined ? (
            'none'
          ) : (
            <>
              shown in TLS, expires <Time at={certificate.expires_at} />
            </>
          )}
        </dd>
      </dl>
    </Panel>
  );
}

type Authorization = StreamShown['destination']['configuration']['webhook_authorization'];

function authorizationWords(authorization: Authorization): string {
  switch (authorization.method) {
    case 'basic':
      return `User name ${authorization.username} with a password`;
    case 'bearer':
      return 'A bearer token';
    case 'custom_header':
      return `The header ${authorization.header_key}`;
    case 'oauth2_client_credentials': {
      const { client_id: client, scope, audience } = authorization;
      const forWhat = audience === undefined ? '' : ` for ${audience}`;
      return `Access tokens of the client ${client}${forWhat}${scope === undefined ? '' : `, scope ${scope}`}`;
    }
  }
}

function Retries({ delivery: { retry } = {} }: StreamShown) {
  const statuses = typeof retry === 'object' ? retry.retry_4xx : undefined;
  const ofService = useServiceDelays(retry === undefined);
  const delays = retry === undefined ? ofService : delaysSecondsOf(retry);
  return (
    <Panel title="Retries">
      <div class="stack">
        <dl class="facts">
          <dt>Schedule</dt>
          <dd>{retryWords(retry, ofService)}</dd>
          <dt>4xx retried</dt>
          <dd>{statuses?.join(', ') ?? 'as LEAT_RETRY_4XX says'}</dd>
        </dl>
        {delays !== undefined && <RetryPicture delaysSeconds={delays} />}
      </div>
    </Panel>
  );
}

function Selection({ delivery = {} }: StreamShown) {
  const { filter } = delivery;
  return (
    <Panel title="Filter and order">
      <dl class="facts">
        <dt>Only events where</dt>
        <dd class="stack-tight">
          {filter === undefined ? (
            'none is left out: the stream has no filter'
          ) : (
            <>
              <FilterInWords filter={filter as Condition} />
              <Json value={filter} what="filter" />
            </>
          )}
        </dd>
        <dt>Order</dt>
        <dd>{orderWords(delivery)}</dd>
      </dl>
    </Panel>
  );
}

function Requests({ delivery = {} }: StreamShown) {
  const { per_second: perSecond, concurrency, timeout_ms: timeout, headers = {} } = delivery;
  const { signature = 'v1' } = delivery;
  const names = Object.keys(headers);
  return (
    <Panel title="Requests">
      <dl class="facts">
        <dt>Per second</dt>
        <dd>{perSecond === undefined ? 'no limit' : `${perSecond} at most`}</dd>
        <dt>At once</dt>
        <dd>
          {concurrency === undefined ? 'as LEAT_STREAM_CONCURRENCY says' : count(concurrency)}
        </dd>
        <dt>Timeout</dt>
        <dd>
          {timeout === undefined ? 'as LEAT_ATTEMPT_TIMEOUT_MS says' : `${count(timeout)} ms`}
        </dd>
        <dt>Signature</dt>
        <dd>{signatureWords[signature]}</dd>
        <dt>Headers</dt>
        <dd>
          {names.length === 0 ? (
            'none of its own'
          ) : (
            <ul class="stack-tight">
              {names.map((name) => (
                <li key={name}>
                  <code>
                    {name}: {headers[name]}
                  </code>
                </li>
              ))}
            </ul>
          )}
        </dd>
      </dl>
    </Panel>
  );
}

const signatureWords = {
  v1: 'with the secret of the stream (v1)',
  v1a: 'with the key of the tenant (v1a)',
  'v1 v1a': 'with both, the secret and the key (v1 v1a)',
} as const;

function Deletion({ health, stream }: StreamProps) {
  const [isOpen, setOpen] = useState(false);
  const { route } = useLocation();
  const { failures, retrying } = health;
  return (
    <Panel title="Delete">
      <div class="row row-spread">
        <p>
          Its failures, retries and secrets go with it, and nothing can bring them back. To stop it
          for a while, pause or disable it.
        </p>
        <button type="button" class="button danger" onClick={() => setOpen(true)}>
          Delete this stream
        </button>
      </div>
      {isOpen && (
        <ActionDialog
          title={`Delete ${stream.name}`}
          label="Delete the stream"
          isDanger
          typed={stream.name}
          action={{
            request: { method: 'DELETE', path: `/event-streams/${stream.id}` },
            command: `leat streams delete ${commandWord(health)}`,
          }}
          onClose={() => setOpen(false)}
          onDone={() => {
            keepUnsaved(stream.id, undefined);
            route(links.streams);
            refresh(['/stream-health', '/overview', '/delivery-groups', '/deliveries']);
            say(`${stream.name} is deleted.`);
          }}
        >
          <p>
            {plural(failures.open, 'open failure')} and {plural(retrying, 'delivery', 'deliveries')}{' '}
            that wait for a retry are deleted with it. Events stay in the log.
          </p>
        </ActionDialog>
      )}
    </Panel>
  );
}
