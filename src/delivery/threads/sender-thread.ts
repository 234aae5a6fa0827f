import assert from 'node:assert/strict';
import type { KeyObject } from 'node:crypto';
import { parentPort, workerData } from 'node:worker_threads';
import { systemClock } from '../../clock.ts';
import type { SendResult } from '../../core/retry.ts';
import { createEgressRule, type EgressOptions } from '../http/egress.ts';
import type { LookupRequest } from '../http/name-lookups.ts';
import { createTransport, type PendingRequest, type TransportDeps } from '../http/transport.ts';
import { UnaskedOrigins } from '../http/unasked-origins.ts';
import type { RequestTemplate } from '../request.ts';
import { createSigningTransport } from '../signing-transport.ts';
import {
  type FromSender,
  type Mutable,
  pushResult,
  type RequestItems,
  requestLength,
  type ToSender,
} from './messages.ts';

/**
 * The program of the threads that `sender-threads.ts` starts: signs requests and sends them. The main
 * thread looks names up, because it bounds the lookups of all threads.
 */

/** What a thread starts with. */
export interface SenderThreadData
  extends
    EgressOptions,
    Pick<
      TransportDeps,
      'timeoutMs' | 'connectionMs' | 'bodyBytesMax' | 'textBytesMax' | 'idleConnectionsMax' | 'tls'
    > {}

const port = parentPort;
assert(port !== null, 'this is the program of a thread');
const data = workerData as SenderThreadData;
/** Templates and keys by the numbers that the main thread gave them. */
const values = new Map<number, object>();
const underWay = new Map<number, PendingRequest>();
const lookups = new Map<number, LookupRequest>();
const changedRoutes = new Set<string>();
const gatherMs = 1;
let sentMs = 0;
let lastLookup = 0;
let unsent: Mutable<FromSender> | undefined;

const unaskedOrigins = new UnaskedOrigins(systemClock);
unaskedOrigins.listen((origin, { isLearned }) => {
  if (!isLearned) outgoing().unasked.push(origin);
});
const http = createTransport({
  ...data,
  clock: systemClock,
  egress: createEgressRule(data),
  names: {
    // The main thread has prepared the attempt.
    prepare: () => true,
    isReady: () => true,
    last: () => undefined,
    find: (owner, name, request) => {
      assert(owner !== 'system');
      lastLookup += 1;
      lookups.set(lastLookup, request);
      outgoing().lookups.push([lastLookup, owner, name]);
    },
  },
  inspector: { post: () => assert.fail('inspectors are on the main thread') },
  idleChanged: (route) => {
    changedRoutes.add(route);
    outgoing();
  },
  blockedFound: (name, address) => outgoing().blocked.push([name, address]),
  unasked: unaskedOrigins,
});
const transport = createSigningTransport(http, (error) => {
  outgoing().unexpected.push(error instanceof Error ? error : new Error(String(error)));
});

port.on('message', ({ added, removed, requests, cancelled, begun, found, unasked }: ToSender) => {
  for (const origin of unasked) unaskedOrigins.note(origin, true);
  for (const [reference, value] of added) values.set(reference, value);
  for (let at = 0; at < requests.length; at += requestLength) {
    post(requests.slice(at, at + requestLength) as RequestItems);
  }
  for (const reference of removed) values.delete(reference);
  for (const request of cancelled) underWay.get(request)?.cancel();
  for (const lookup of begun) lookups.get(lookup)?.begun?.();
  for (const [lookup, result] of found) {
    const request = lookups.get(lookup);
    lookups.delete(lookup);
    request?.ended(result);
  }
});

function post([request, template, id, body, trace, at, accessToken, key, kid]: RequestItems): void {
  const pending = transport.post({
    template: values.get(template) as RequestTemplate,
    event: { id, body, trace },
    at,
    accessToken,
    key: key === 0 ? undefined : { kid, key: values.get(key) as KeyObject },
  });
  underWay.set(request, pending);
  void pending.ended.then((result) => ended(request, pending.waitedMs, result));
}

function ended(request: number, waitedMs: number, result: SendResult): void {
  underWay.delete(request);
  pushResult(outgoing().results, request, waitedMs, result);
}

/**
 * Returns the message that is sent next: at the end of this turn of the event loop, or a little later
 * when another one was sent just before. A message costs as much as three requests, and the results
 * wait for the store anyway.
 */
function outgoing(): Mutable<FromSender> {
  if (unsent === undefined) {
    unsent = { results: [], idle: [], lookups: [], blocked: [], unasked: [], unexpected: [] };
    if (systemClock.elapsedMs() - sentMs > gatherMs) setImmediate(send);
    else systemClock.after(gatherMs, send);
  }
  return unsent;
}

function send(): void {
  const message = outgoing();
  for (const route of changedRoutes) message.idle.push([route, http.idle(route)]);
  changedRoutes.clear();
  unsent = undefined;
  sentMs = systemClock.elapsedMs();
  port?.postMessage(message);
}

outgoing();
