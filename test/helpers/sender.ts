import { lookup } from 'node:dns';
import type { TestContext } from 'node:test';
import type { PostResult } from '../../src/core/retry.ts';
import { createEgressRule } from '../../src/delivery/egress.ts';
import {
  createTransport,
  type HttpTransport,
  type Post,
  type TransportDeps,
  type WebhookRequest,
} from '../../src/delivery/transport.ts';
import { createManualClock, type ManualClock } from './clock.ts';

/** The real transport over real sockets; only its clock stands still until the test moves it. */
export interface Sender {
  readonly transport: HttpTransport;
  readonly clock: ManualClock;
  post(origin: string, request?: Partial<WebhookRequest>): Post;
  /** Posts and waits for the end. */
  send(origin: string, request?: Partial<WebhookRequest>): Promise<PostResult>;
}

export const timeoutMs = 10_000;

/** Ends with the test. Addresses of loopback are allowed unless `allow` says otherwise. */
export function createSender(
  t: TestContext,
  options: Partial<TransportDeps> & { readonly allow?: readonly string[] } = {},
): Sender {
  const clock = createManualClock();
  const { allow = ['127.0.0.0/8', '::1'], ...deps } = options;
  const transport = createTransport({
    clock,
    egress: createEgressRule({ allow }),
    lookup,
    timeoutMs,
    bodyBytesMax: 65_536,
    textBytesMax: 2048,
    ...deps,
  });
  t.after(() => transport.close());
  const post: Sender['post'] = (origin, request) =>
    transport.post({ origin, path: '/hook', headers: [], body: '{}', ...request });
  return { transport, clock, post, send: (origin, request) => post(origin, request).ended };
}
