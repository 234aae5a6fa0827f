import { type AgentOptions, globalAgent } from 'node:http';
import type { buildConnector as Connectors, Dispatcher, Pool as Pools } from 'undici';
import { patientConnect } from '../../core/address.ts';
import { isLocalhostName, isThisMachine, resolveLocalhost } from './localhost.ts';

export interface ConnectionOptions {
  /** PEM texts of the authorities to trust; `undefined`: those that Node trusts. */
  readonly ca: string[] | undefined;
  /** Longest time to connect. */
  readonly timeoutMs: number;
}

/**
 * Creates the connection to a server, or to the proxies that the environment names for it. Plain HTTP to this
 * machine takes none. Loads
 * undici only then, so that `leat --help` does not wait for it.
 */
export async function createConnection(
  url: string,
  { ca, timeoutMs }: ConnectionOptions,
): Promise<Dispatcher> {
  const [{ buildConnector, Client, EnvHttpProxyAgent, Pool }, { withInterimResponses }] =
    await Promise.all([import('undici'), import('../../delivery/http/interim-responses.ts')]);
  const own = { ...patientConnect(timeoutMs), ...(ca !== undefined && { ca }) };
  const { protocol, hostname } = new URL(url);
  const lookup = isLocalhostName(hostname) ? { lookup: resolveLocalhost } : {};
  // A proxy elsewhere would read the secret, and not find the server.
  const isDirect = !usesEnvProxy() || (protocol === 'http:' && isThisMachine(hostname));
  const connect = buildConnector({ ...own, ...lookup, timeout: timeoutMs, allowH2: false });
  if (isDirect) return new Client(url, { connect: withInterimResponses(connect), allowH2: false });
  return new EnvHttpProxyAgent({
    connect,
    // Of the server, also through a proxy: each kind of agent has a connector of its own.
    factory: (origin, options) => {
      const given = options as Pools.Options & { readonly connect: Connectors.connector };
      return new Pool(origin, { ...given, connect: withInterimResponses(given.connect) });
    },
    connectTimeout: timeoutMs,
    proxyTls: own,
    requestTls: own,
    allowH2: false,
  });
}

/** Returns whether Node was started with NODE_USE_ENV_PROXY or `--use-env-proxy`. */
function usesEnvProxy(): boolean {
  const { options } = globalAgent as unknown as { readonly options: AgentOptions };
  return options.proxyEnv !== undefined;
}
