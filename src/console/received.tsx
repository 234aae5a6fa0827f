import { useState } from 'preact/hooks';
import type { ReceivedShown } from '../schemas/received.ts';
import { Allowed, SameElsewhere, useSending } from './parts/action.tsx';
import { Badge } from './parts/badge.tsx';
import { Code } from './parts/copy.tsx';
import { Loaded, Problem } from './parts/loaded.tsx';
import { say } from './parts/notice.tsx';
import { duration, plural } from './parts/numbers.ts';
import { Time } from './parts/time.tsx';
import { refresh, useRead } from './queries.ts';
import { type ApiRequest, parseKeepingNumbers } from './request.ts';

/** How often what a receiver inside Leat got is read while it is shown: somebody waits for it. */
const refetchMs = 2_000;

/** Shows what the receiver inside Leat of a stream got, newest first, and what it answers next. */
export function Received({ streamId }: { readonly streamId: string }) {
  const path = `/event-streams/${streamId}/received`;
  const read = useRead<ReceivedShown>(path, { refetchMs });
  return (
    <Loaded read={read}>
      {({ received, answer }) => (
        <div class="stack">
          <Allowed scope="update:event_streams">
            <AnswerForm key={streamId} path={path} answer={answer} />
          </Allowed>
          {received.length === 0 ? (
            <p class="muted">
              Nothing has arrived in the last 24 hours on this node, or since Leat was started.
            </p>
          ) : (
            <ol class="stack">
              {received.map((request, index) => (
                <li key={`${request.received_at} ${received.length - index}`}>
                  <ReceivedRequest request={request} isOpen={index === 0} />
                </li>
              ))}
            </ol>
          )}
        </div>
      )}
    </Loaded>
  );
}

type Request = ReceivedShown['received'][number];

const signatures = {
  valid: ['delivered', 'signature valid'],
  wrong: ['failed', 'signature wrong'],
  missing: ['failed', 'no signature'],
  unknown_key: ['failed', 'signed with an unknown key'],
  unchecked: ['waiting', 'signature not checked'],
} as const;

/** Shows one request as it arrived. */
export function ReceivedRequest({
  request,
  isOpen,
}: {
  readonly request: Request;
  readonly isOpen: boolean;
}) {
  const { received_at: at, method, path, headers, body, signature, status, error } = request;
  const [state, text] = signatures[signature];
  const lines = Object.entries(headers as Readonly<Record<string, string>>).map(
    ([name, value]) => `${name}: ${value}`,
  );
  return (
    <details class="panel" open={isOpen}>
      <summary class="received-head">
        <span class="strong">
          {method} {path}
        </span>
        <Badge state={state} text={text} />
        <span class="muted">{status === undefined ? error : `answered ${status}`}</span>
        <Time at={at} />
      </summary>
      <div class="panel-body stack">
        <Code text={lines.join('\n')} what="headers" />
        <Code text={pretty(body)} what="body" />
      </div>
    </details>
  );
}

/** Returns JSON with line breaks; other text as it is. */
function pretty(body: string): string {
  try {
    return JSON.stringify(parseKeepingNumbers(body), undefined, 2);
  } catch {
    return body;
  }
}

/** Sets what the receiver answers next, to see retries and failures. */
function AnswerForm({
  path,
  answer,
}: {
  readonly path: string;
  readonly answer: ReceivedShown['answer'];
}) {
  const [status, setStatus] = useState('503');
  const [times, setTimes] = useState('3');
  const [delay, setDelay] = useState('0');
  const { isSending, error, start } = useSending<unknown>(() => {
    refresh([path]);
    say(`The next ${plural(Number(times), 'request')} will be answered with ${status}.`);
  });
  const body = { status: Number(status), delay_ms: Number(delay), times: Number(times) };
  const request: ApiRequest = { method: 'PUT', path: `${path}/answer`, body };
  return (
    <form
      class="stack-tight"
      onSubmit={(event) => {
        event.preventDefault();
        void start({ request });
      }}
    >
      <p class="meta">{presentAnswer(answer)}</p>
      <div class="toolbar">
        <NumberField label="Answer next with" value={status} min={200} max={599} set={setStatus} />
        <NumberField label="after (ms)" value={delay} min={0} max={30_000} set={setDelay} />
        <NumberField label="this many times" value={times} min={1} max={1000} set={setTimes} />
        <button type="submit" class="button" aria-disabled={isSending}>
          Set the answer
        </button>
      </div>
      {error !== undefined && <Problem error={error} />}
      <SameElsewhere request={request} />
    </form>
  );
}

function presentAnswer({ status, delay_ms: delayMs, times }: ReceivedShown['answer']): string {
  const late = delayMs === 0 ? '' : ` after ${duration(delayMs)}`;
  const count = times === undefined ? 'each request' : `the next ${plural(times, 'request')}`;
  return `Answers ${count} with ${status}${late}.`;
}

interface NumberFieldProps {
  readonly label: string;
  readonly value: string;
  readonly min: number;
  readonly max: number;
  readonly set: (value: string) => void;
}

function NumberField({ label, value, min, max, set }: NumberFieldProps) {
  return (
    <label class="field">
      <span class="label">{label}</span>
      <input
        type="number"
        value={value}
        min={min}
        max={max}
        step={1}
        required
        onInput={({ currentTarget }) => set(currentTarget.value)}
      />
    </label>
  );
}
