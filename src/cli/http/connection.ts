import { type AgentOptions, globalAgent } from 'node:http';
import type { Dispatcher } from 'undici';
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
  const { Client, EnvHttpProxyAgent } = await import('undici');
  const tls = ca === undefined ? {} : { ca };
  const { protocol, hostname } = new URL(url);
  const lookup = isLocalhostName(hostname) ? { lookup: resolveLocalhost } : {};
  // A proxy elsewhere would read the secret, and not find the server.
  const isDirect = !usesEnvProxy() || (protocol === 'http:' && isThisMachine(hostname));
  const connect = { ...tls, ...lookup, timeout: timeoutMs };
  if (isDirect) return new Client(url, { connect, allowH2: false });
  return new EnvHttpProxyAgent({
    connect,
    connectTimeout: timeoutMs,
    proxyTls: tls,
    requestTls: tls,
    allowH2: false,
  });
}

/** Returns whether Node was started with NODE_USE_ENV_PROXY or `--use-env-proxy`. */
function usesEnvProxy(): boolean {
  const { options } = globalAgent as unknown as { readonly options: AgentOptions };
  return options.proxyEnv !== undefined;
}
