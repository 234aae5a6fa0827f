import type { Clock } from '../core/clock.ts';
import { cancelled } from '../core/retry.ts';
import { sleep } from '../core/sleep.ts';
import { endedWith, type SigningTransport } from './signing-transport.ts';

/** A transport whose code is loaded after the start. */
export interface LaterTransport extends SigningTransport {
  /** Loads it; the first `prepare` does so as well. Never rejects. */
  load(): Promise<void>;
}

export interface LaterTransportDeps {
  /** Resolves with the transport that does the work. */
  readonly open: () => Promise<SigningTransport>;
  readonly clock: Pick<Clock, 'after'>;
  /** Receives why it could not be loaded; it is tried again. */
  readonly unexpected: (error: unknown) => void;
}

/** From one try to load it to the next. */
const retryMs = 1000;

/**
 * Creates a transport that is loaded once the service responds: the HTTP client takes a twentieth of
 * the start. The first attempts wait for it in `prepare`; those that were not prepared end as
 * `cancelled`.
 */
export function createLaterTransport({
  open,
  clock,
  unexpected,
}: LaterTransportDeps): LaterTransport {
  const closed = new AbortController();
  let loading: Promise<void> | undefined;
  let transport: SigningTransport | undefined;
  const loadOnce = async (): Promise<void> => {
    while (transport === undefined && !closed.signal.aborted) {
      try {
        transport = await open();
      } catch (error) {
        unexpected(error);
        await sleep(clock, retryMs, closed.signal);
      }
    }
    if (closed.signal.aborted) await transport?.close();
  };
  const load = (): Promise<void> => (loading ??= loadOnce());
  return {
    load,
    prepare: (tenant, origin, needs) => transport?.prepare(tenant, origin, needs) ?? load(),
    isReady: (origin, needs) => transport?.isReady(origin, needs) ?? false,
    post: (request) => transport?.post(request) ?? endedWith(cancelled),
    close: async () => {
      closed.abort();
      await transport?.close();
    },
  };
}
