import type { SigningTransport } from './signing-transport.ts';
import { endedWith } from './signing-transport.ts';

/**
 * Creates a transport whose code is loaded for the first attempt: the HTTP client takes a twentieth of
 * the start of a service and 5 MB. The first `prepare` waits for it; attempts that were not prepared end
 * as `cancelled`.
 *
 * @param load resolves with the transport that does the work
 */
export function createLaterTransport(load: () => Promise<SigningTransport>): SigningTransport {
  let loading: Promise<SigningTransport> | undefined;
  let transport: SigningTransport | undefined;
  let isClosed = false;
  const loaded = async (): Promise<void> => {
    loading ??= load();
    transport = await loading;
    if (isClosed) await transport.close();
  };
  return {
    prepare: (tenant, origin, needs) => transport?.prepare(tenant, origin, needs) ?? loaded(),
    isReady: (origin, needs) => transport?.isReady(origin, needs) ?? false,
    post: (request) =>
      transport?.post(request) ??
      endedWith({ kind: 'error', cause: 'cancelled', detail: undefined }),
    close: async () => {
      isClosed = true;
      await transport?.close();
    },
  };
}
