import { useEffect, useState } from 'preact/hooks';
import type { EventTypesShown } from '../schemas/event-types.ts';
import type { StreamHealthsShown } from '../schemas/stream-health.ts';
import { quoted } from './command.ts';
import { readObject } from './json-text.ts';
import { links } from './links.ts';
import { useParameters } from './location.ts';
import { type Action, Allowed, SameElsewhere, useSending } from './parts/action.tsx';
import { Id } from './parts/copy.tsx';
import { Select } from './parts/filters.tsx';
import { Loaded, Problem } from './parts/loaded.tsx';
import { Notice } from './parts/notice.tsx';
import { Page, Panel } from './parts/page.tsx';
import { once, refresh, useRead } from './queries.ts';
import { Received } from './received.tsx';

/** Publishes an event, or sends it to one stream, and shows what a receiver inside Leat got. */
export function Publish() {
  return (
    <Page title="Publish and test">
      <Allowed
        scope="create:events"
        otherwise={<Notice tone="info">Your role may not publish events.</Notice>}
      >
        <div class="columns">
          <Panel title="Event">
            <EventForm />
          </Panel>
          <Panel title="Receiver inside Leat">
            <Inspector />
          </Panel>
        </div>
      </Allowed>
    </Page>
  );
}

interface Sent {
  readonly id: string;
}

function EventForm() {
  const stream = useParameters().get('to');
  const { type, setType, types, data, setData, isOwn, reset } = useDraft();
  const [key, setKey] = useState('');
  const [sent, setSent] = useState<readonly Sent[]>([]);
  const { isSending, error, start } = useSending<Sent>((result) => {
    setSent([result, ...sent.slice(0, 9)]);
    refresh(['/event-log', '/overview', '/event-streams/']);
  });
  const reading = readObject(data);
  const action =
    'value' in reading ? actionOf({ stream, type, data: reading.value, key }) : undefined;
  return (
    <form
      class="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (action !== undefined) void start(action);
      }}
    >
      <Target />
      <TypeField type={type} types={types} set={setType} />
      <DataField
        text={data}
        problem={'problem' in reading ? reading.problem : undefined}
        isOwn={isOwn}
        set={setData}
        reset={reset}
      />
      {stream === undefined && <KeyField value={key} set={setKey} />}
      {error !== undefined && <Problem error={error} />}
      <div>
        <button
          type="submit"
          class="button primary"
          disabled={action === undefined}
          aria-disabled={isSending}
        >
          {stream === undefined ? 'Publish' : 'Send to this stream'}
        </button>
      </div>
      {action !== undefined && <SameElsewhere {...action} />}
      <SentEvents sent={sent} />
    </form>
  );
}

/** The type and the data of the event; the data follow the sample of the type until somebody types. */
function useDraft() {
  const [type, setType] = useState(useParameters().get('type') ?? 'user.created');
  const [data, setText] = useState('{}');
  const [isOwn, setOwn] = useState(false);
  // Another sample would replace the one that is about to be sent.
  const types = useRead<EventTypesShown>('/event-types?take=100', once).data?.types ?? [];
  const sample = types.find((each) => each.type === type)?.sample;
  useEffect(() => {
    if (!isOwn && sample !== undefined) setText(JSON.stringify(sample ?? {}, undefined, 2));
  }, [sample, isOwn]);
  const setData = (text: string): void => {
    setText(text);
    setOwn(true);
  };
  return { type, setType, types, data, setData, isOwn, reset: () => setOwn(false) };
}

interface TypeFieldProps {
  readonly type: string;
  readonly types: EventTypesShown['types'];
  readonly set: (type: string) => void;
}

function TypeField({ type, types, set }: TypeFieldProps) {
  return (
    <label class="field">
      <span class="label">Type</span>
      <input
        value={type}
        list="event-types"
        required
        maxLength={128}
        pattern="[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+"
        title="Two or more segments of a-z, 0-9 and _, joined by dots"
        spellcheck={false}
        onInput={({ currentTarget }) => set(currentTarget.value)}
      />
      <datalist id="event-types">
        {types.map((each) => (
          <option key={each.type} value={each.type} />
        ))}
      </datalist>
    </label>
  );
}

interface KeyFieldProps {
  readonly value: string;
  readonly set: (value: string) => void;
}

function KeyField({ value, set }: KeyFieldProps) {
  return (
    <div class="field">
      <label for="event-key">Idempotency key</label>
      <input
        id="event-key"
        value={value}
        maxLength={255}
        spellcheck={false}
        autocomplete="off"
        aria-describedby="key-hint"
        onInput={({ currentTarget }) => set(currentTarget.value)}
      />
      <span class="hint" id="key-hint">
        Optional. The same key again is the same event and is not sent twice.
      </span>
    </div>
  );
}

interface Draft {
  readonly stream: string | undefined;
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
  readonly key: string;
}

/** Returns the action that publishes an event, or sends it to one stream as a test. */
function actionOf({ stream, type, data, key }: Draft): Action {
  const json = quoted(JSON.stringify(data));
  if (stream !== undefined) {
    return {
      request: {
        method: 'POST',
        path: `/event-streams/${stream}/test`,
        body: { event_type: type, data },
      },
      command: `leat test ${stream} --type ${quoted(type)} --data ${json}`,
    };
  }
  const id = key === '' ? {} : { id: key };
  const option = key === '' ? '' : ` --id ${quoted(key)}`;
  return {
    request: { method: 'POST', path: '/events', body: { type, data, ...id } },
    command: `leat events publish --type ${quoted(type)} --data ${json}${option}`,
  };
}

function Target() {
  const { data } = useRead<StreamHealthsShown>('/stream-health?take=100');
  const choices = (data?.streams ?? []).map(({ event_stream_id: value, name }) => ({
    value,
    text: `Only ${name}, as a test`,
  }));
  return (
    <Select
      name="to"
      label="To"
      choices={[
        { value: '', text: 'The log: every stream that subscribes to the type' },
        ...choices,
      ]}
    />
  );
}

interface DataFieldProps {
  readonly text: string;
  readonly problem: string | undefined;
  /** Whether the text is no longer the sample. */
  readonly isOwn: boolean;
  readonly set: (text: string) => void;
  readonly reset: () => void;
}

function DataField({ text, problem, isOwn, set, reset }: DataFieldProps) {
  return (
    <div class="field">
      <div class="row row-spread">
        <label for="event-data">Data</label>
        {isOwn && (
          <button type="button" class="button small" onClick={reset}>
            Sample of this type
          </button>
        )}
      </div>
      <textarea
        id="event-data"
        class="mono"
        rows={14}
        value={text}
        spellcheck={false}
        aria-describedby="data-problem"
        aria-invalid={problem === undefined ? 'false' : 'true'}
        onInput={({ currentTarget }) => set(currentTarget.value)}
      />
      <span id="data-problem" class="problem" role="status">
        {problem}
      </span>
    </div>
  );
}

function SentEvents({ sent }: { readonly sent: readonly Sent[] }) {
  if (sent.length === 0) return null;
  return (
    <div class="stack-tight" role="status">
      <h3>Accepted</h3>
      <ul class="stack-tight">
        {sent.map(({ id }) => (
          <li key={id} class="row">
            <Id value={id} what="event id" href={links.event(id)} />
            <a href={links.event(id)}>What became of it</a>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** Lets one choose a stream whose endpoint is the receiver inside Leat, and shows what that got. */
function Inspector() {
  const parameters = useParameters();
  const read = useRead<StreamHealthsShown>('/stream-health?q=.inspector.invalid&take=100');
  return (
    <Loaded read={read}>
      {({ streams }) => {
        const [first] = streams;
        if (first === undefined) {
          return (
            <div class="stack-tight">
              <p>
                A stream whose endpoint is <code>https://new.inspector.invalid/</code> delivers into
                Leat itself; here is shown what arrives.
              </p>
              <div>
                <a class="button" href={links.first}>
                  Make one
                </a>
              </div>
            </div>
          );
        }
        const present = parameters.get('receiver') ?? first.event_stream_id;
        return (
          <div class="stack">
            <Select
              name="receiver"
              label="Of the stream"
              choices={streams.map(({ event_stream_id: id, name }) => ({
                value: id === first.event_stream_id ? '' : id,
                text: name,
              }))}
            />
            <Received streamId={present} />
          </div>
        );
      }}
    </Loaded>
  );
}
