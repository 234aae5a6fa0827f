import { systemClock } from '../src/clock.ts';
import { limits } from '../src/config.ts';
import { createDispatcher } from '../src/delivery/dispatcher.ts';
import { createEgressRule } from '../src/delivery/http/egress.ts';
import { createInspector } from '../src/delivery/http/inspector.ts';
import { createNameLookups } from '../src/delivery/http/name-lookups.ts';
import { createResolver } from '../src/delivery/http/resolver.ts';
import { createTransport } from '../src/delivery/http/transport.ts';
import { createSigningTransport } from '../src/delivery/signing-transport.ts';
import type { Store } from '../src/store/port/store.ts';
import { noKeys } from '../test/helpers/transport.ts';

/** Runs a dispatcher with the defaults of the program but for the interval between trials. */
export function startDispatcher(
  store: Store,
  trialMs: number,
): { idle(): Promise<void>; end(): Promise<void> } {
  const clock = systemClock;
  const resolver = createResolver({ clock, ...limits.resolver });
  const inspector = createInspector({ clock, settings: limits.inspector });
  const transport = createTransport({
    clock,
    egress: createEgressRule({ allow: ['127.0.0.0/8'] }),
    names: createNameLookups({ clock, resolve: resolver.resolve, limits: limits.names }),
    inspector,
    timeoutMs: 10_000,
    connectionMs: 60_000,
    ...limits.response,
  });
  const dispatcher = createDispatcher({
    store,
    transport: createSigningTransport(transport, (error) => {
      throw error;
    }),
    webhookKeys: noKeys,
    clock,
    settings: {
      ...limits.delivery,
      trialMs,
      streamConcurrency: 64,
      concurrency: 1024,
      inflightBytesMax: 268_435_456,
      retryDelaysMs: [1000, 2000, 4000],
      retry4xx: [408, 429],
      attemptTimeoutMs: 10_000,
      disable: { consecutive: 500, total: 5000 },
      userAgent: 'Leat/0.1.0',
      attributePrefix: 'svc',
    },
    report: () => undefined,
  });
  const ending = new AbortController();
  const running = dispatcher.run(ending.signal);
  return {
    idle: () => dispatcher.idle(),
    end: async () => {
      ending.abort();
      await running;
      await transport.close();
      inspector.close();
      resolver.close();
    },
  };
}
