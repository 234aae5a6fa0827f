import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { limits } from '../../src/config.ts';
import type { AttemptResult, SendResult } from '../../src/core/retry.ts';
import { createEgressRule } from '../../src/delivery/http/egress.ts';
import { createInspector, type Inspector } from '../../src/delivery/http/inspector.ts';
import { createNameLookups, type NameLookups } from '../../src/delivery/http/name-lookups.ts';
import { createResolver } from '../../src/delivery/http/resolver.ts';
import {
  createTransport,
  type HttpTransport,
  type PendingRequest,
  type TransportDeps,
  type WebhookRequest,
} from '../../src/delivery/http/transport.ts';
import { createManualClock, type ManualClock } from './clock.ts';
import { noFiles } from './dns.ts';
import { waitFor } from './wait.ts';

/** The real transport over real sockets, with a manual clock. */
export interface Sender {
  readonly transport: HttpTransport;
  readonly names: NameLookups;
  readonly clock: ManualClock;
  post(origin: string, request?: Partial<WebhookRequest>): PendingRequest;
  /** Posts and waits for the result. */
  send(origin: string, request?: Partial<WebhookRequest>): Promise<AttemptResult>;
  readonly inspector: Inspector;
}

export const timeoutMs = 10_000;

const [, unknownClass, ...slowerClasses] = limits.names.classes;
/** Time limit of the first lookup of a name. */
export const firstLookupMs: number = unknownClass.belowMs;
/** Duration of a lookup without a reply when it waits in no class; the last class asks once more for 2 s. */
export const silentLookupMs = slowerClasses.reduce<number>(
  (sum, { belowMs }) => sum + Math.min(belowMs, limits.names.timeoutMs),
  firstLookupMs + 2000,
);

export interface SenderOptions {
  /** LEAT_EGRESS_ALLOW. */
  readonly allow?: readonly string[];
  /** Name servers instead of those of this machine; its hosts file is not read then. */
  readonly servers?: readonly string[];
  /** Instead of the resolver. */
  readonly resolve?: (name: string, timeoutMs: number) => Promise<readonly string[]>;
}

/** Creates a sender that ends with the test. Loopback addresses are allowed by default. */
export function createSender(
  t: TestContext,
  options: Partial<Omit<TransportDeps, 'names'>> & SenderOptions = {},
): Sender {
  const clock = createManualClock();
  const { allow = ['127.0.0.0/8', '::1'], servers, resolve, ...deps } = options;
  const resolver = createResolver({
    clock,
    ...limits.resolver,
    ...(servers === undefined ? {} : { ...noFiles, servers }),
  });
  const names = createNameLookups({
    clock,
    resolve: resolve ?? resolver.resolve,
    limits: limits.names,
  });
  const inspector = createInspector({ clock, settings: limits.inspector });
  const transport = createTransport({
    clock,
    egress: createEgressRule({ allow }),
    names,
    inspector,
    timeoutMs,
    connectionMs: 60_000,
    bodyBytesMax: 65_536,
    textBytesMax: 2048,
    ...deps,
  });
  t.after(async () => {
    await transport.close();
    inspector.close();
    resolver.close();
  });
  const defaults = {
    tenant: 1,
    stream: 'est_1',
    path: '/hook',
    headers: [],
    secretHeader: 'authorization',
    body: '{}',
  };
  const post: Sender['post'] = (origin, request) =>
    transport.post({ ...defaults, origin, ...request });
  return {
    transport,
    inspector,
    names,
    clock,
    post,
    send: async (origin, request) => attempted(await post(origin, request).ended),
  };
}

/** Returns the result of an attempt that this machine could make. */
export function attempted(result: SendResult): AttemptResult {
  assert.ok(
    result.kind !== 'shortage',
    `this machine is short of something: ${JSON.stringify(result)}`,
  );
  return result;
}

/**
 * Waits for the result of a post, while the clock moves: a connection to an origin that has responded without a
 * request stays silent for a while.
 */
export async function endOf(post: PendingRequest, clock: ManualClock): Promise<AttemptResult> {
  let result: AttemptResult | undefined;
  void post.ended.then((ended) => (result = attempted(ended)));
  const hasEnded = async (): Promise<boolean> => {
    if (result === undefined) await clock.advance(50);
    return result !== undefined;
  };
  await waitFor('an end', hasEnded, { intervalMsFirst: 1 });
  return result ?? assert.fail();
}

/**
 * Moves the clock until a lookup has ended: between its parts it asks about the domain above, and waits for
 * a real response.
 */
export async function advanceUntil(clock: ManualClock, ended: unknown): Promise<void> {
  const state = { hasEnded: false };
  void Promise.resolve(ended).then(() => (state.hasEnded = true));
  while (!state.hasEnded) await clock.advance(1);
}
