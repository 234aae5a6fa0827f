import type { Ed25519Jwk } from '../auth/key-use.ts';
import type { Keyring } from '../auth/keys.ts';
import type { Clock } from '../core/clock.ts';
import { formatTime } from '../core/date.ts';
import {
  inspectedBy,
  type InspectedRequest,
  inspectorEndpointOf,
  type InspectorAnswer,
  type InspectorMemory,
  usualAnswer,
} from '../core/inspector.ts';
import { sleep } from '../core/sleep.ts';
import type { StreamRef } from '../core/types.ts';
import { hasAsymmetric, publicKeysOf, type VerificationKeys, verify } from '../core/verify.ts';
import { answer, answerSent, received, type ReceivedShown } from '../schemas/received.ts';
import { streamParams } from '../schemas/schema.ts';
import type { Store } from '../store/port/store.ts';
import { streamOf } from './not-found.ts';
import { type Operation, operation } from './operation.ts';
import { conflict, Problem } from './http/problem.ts';

export interface ReceivedDeps {
  readonly store: Pick<Store, 'streams' | 'ownership' | 'auditLog'>;
  readonly clock: Pick<Clock, 'after' | 'now'>;
  readonly inspector: InspectorMemory;
  readonly webhookKeyring: Pick<Keyring<Ed25519Jwk>, 'jwks'>;
  /** The name of this node; absent where no other node can have the store. */
  readonly nodeId: string | undefined;
}

const shared = {
  tag: 'Event streams',
  lifecycle: 'Early Access',
  extension: true,
  params: streamParams,
} as const;

/** Creates the operations of the inspector of a stream (docs/http-api.md#inspector). */
export function receivedOperations(deps: ReceivedDeps): Operation[] {
  return [readReceived(deps), setAnswer(deps)];
}

function readReceived(deps: ReceivedDeps): Operation {
  return operation({
    ...shared,
    operationId: 'readReceived',
    method: 'GET',
    path: '/event-streams/:id/received',
    summary: 'Read what the inspector of an event stream received',
    description:
      'The newest 50 requests, of the last 24 hours, with 1 MiB in all. They are in the memory of the node that sends for the event stream.',
    scopes: ['read:events'],
    success: 200,
    response: received,
    errors: [404, 503],
    handle: async ({ tenant, params }) => {
      const stream = await streamOf(deps.store, tenant.id, params.id);
      const ref = { tenant: tenant.id, stream: stream.id };
      await requireHere(deps, ref);
      const { requests, answer: set } = deps.inspector.read(ref);
      const read = requests.map((request) => ({ request, headers: headersOf(request) }));
      const isAsymmetric = read.some(({ headers }) => hasAsymmetric(headers['webhook-signature']));
      const jwks = isAsymmetric
        ? await deps.webhookKeyring.jwks(tenant.id, deps.clock.now())
        : undefined;
      const keys = {
        secrets: stream.signingSecrets.map(({ secret }) => secret),
        publicKeys: publicKeysOf(jwks),
      };
      const shown = read.map((each) => showRequest(each, keys));
      return { body: { received: shown, answer: showAnswer(set) } };
    },
  });
}

function setAnswer(deps: ReceivedDeps): Operation {
  return operation({
    ...shared,
    operationId: 'setReceivedAnswer',
    method: 'PUT',
    path: '/event-streams/:id/received/answer',
    summary: 'Set how the inspector of an event stream responds',
    description: 'To the next `times` requests (1); without it the response is 204 at once.',
    scopes: ['update:event_streams'],
    body: { schema: answerSent, required: true },
    success: 200,
    response: answer,
    errors: [404, 409, 503],
    handle: async ({ tenant, params, body, entry }) => {
      const stream = await streamOf(deps.store, tenant.id, params.id);
      if (inspectedBy(stream.destination.endpoint) === undefined) throw notInspected(stream.id);
      const ref = { tenant: tenant.id, stream: stream.id };
      await requireHere(deps, ref);
      const { status, delay_ms: delayMs = usualAnswer.delayMs, times = 1 } = body;
      await deps.store.auditLog.add([{ entry: entry(stream.id), count: 1, ageMs: 0 }]);
      const set = { status, delayMs, times };
      deps.inspector.setAnswer(ref, set);
      return { body: showAnswer(set) };
    },
  });
}

/** Polls for the owner of a stream that has none yet: a new stream is claimed within milliseconds. */
const ownerPolls = { count: 20, everyMs: 50 };

/**
 * Checks that this node has the requests of a stream: it is the owner, or nobody owns the stream and
 * no other node can have been the last owner. Throws 503 otherwise: the memory is not shared, and a
 * response without the requests of another node would look as if nothing had been received.
 */
async function requireHere(
  { store, clock, inspector, nodeId }: ReceivedDeps,
  ref: StreamRef,
): Promise<void> {
  if (nodeId === undefined) return;
  for (let polls = 1; ; polls += 1) {
    const owner = await store.ownership.owner(ref);
    if (owner === nodeId) return;
    if (owner !== undefined) throw elsewhere(owner);
    if (inspector.has(ref) || (await isAlone(store, nodeId))) return;
    if (polls >= ownerPolls.count) throw nowhere();
    await sleep(clock, ownerPolls.everyMs);
  }
}

async function isAlone({ ownership }: Pick<Store, 'ownership'>, nodeId: string): Promise<boolean> {
  const nodes = await ownership.nodes();
  return nodes.every(({ id, leaseMs }) => id === nodeId || leaseMs === 0);
}

function elsewhere(node: string): Problem {
  const message = `The node ${node} sends for this event stream and has its requests in memory: send this request to that node.`;
  return new Problem(503, message, 'received_elsewhere', { 'retry-after': '1' });
}

function nowhere(): Problem {
  const message =
    'No node sends for this event stream at present: enable it, or send this request to the node that did last.';
  return new Problem(503, message, 'received_elsewhere', { 'retry-after': '1' });
}

function notInspected(id: string): Problem {
  const message = `The event stream has another endpoint: update webhook_endpoint to ${inspectorEndpointOf(id)} first.`;
  return conflict(message, 'not_inspected');
}

type RequestShown = ReceivedShown['received'][number];

interface ReadRequest {
  readonly request: InspectedRequest;
  /** By name, in lower case. */
  readonly headers: Readonly<Record<string, string>>;
}

function showRequest({ request, headers }: ReadRequest, keys: VerificationKeys): RequestShown {
  const { receivedAt, path, body, result } = request;
  const shown = {
    received_at: formatTime(receivedAt),
    method: 'POST',
    path,
    headers,
    body,
    signature: signatureOf(headers, body, keys, Math.floor(receivedAt / 1000)),
  } as const;
  if (result === undefined) return shown;
  return result.kind === 'response'
    ? { ...shown, status: result.status }
    : { ...shown, error: result.cause };
}

function headersOf({ headers }: InspectedRequest): Record<string, string> {
  const entries = headers.flatMap((name, index) =>
    index % 2 === 0 ? [[name.toLowerCase(), headers[index + 1] ?? ''] as const] : [],
  );
  return Object.fromEntries(entries);
}

/** Verifies the signatures as a receiver does, with the secrets and keys that are valid now. */
function signatureOf(
  headers: Readonly<Record<string, string>>,
  body: string,
  keys: VerificationKeys,
  receivedAtSeconds: number,
): RequestShown['signature'] {
  const sent = {
    id: headers['webhook-id'],
    timestamp: headers['webhook-timestamp'],
    signature: headers['webhook-signature'],
    keyId: headers['webhook-key-id'],
  };
  const check = verify(keys, sent, Buffer.from(body), receivedAtSeconds);
  if (check === 'unknown key') return 'unknown_key';
  // It was sent and received at about the same time, by the same clock.
  return check === 'too old' || check === 'too new' ? 'wrong' : check;
}

function showAnswer(set: InspectorAnswer | undefined): ReceivedShown['answer'] {
  const { status, delayMs } = set ?? usualAnswer;
  return { status, delay_ms: delayMs, ...(set && { times: set.times }) };
}
