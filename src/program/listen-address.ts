import { parseAddress } from '../core/address.ts';
import { StartRefused } from '../core/errors.ts';

/** An address to listen on, and the variable that chooses its port. */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
  readonly portVariable: string;
  /** The variable that chooses its host; default: LEAT_HOST. */
  readonly hostVariable?: string;
}

/** Returns `http://host:port` for clients on the same machine; `https://` with TLS. */
export function urlOf(
  listening: Pick<ListenAddress, 'host' | 'port'>,
  { tls }: { readonly tls: boolean },
): string {
  const host = reachableHost(listening.host);
  const urlHost = host.includes(':') ? `[${host}]` : host;
  return `${tls ? 'https' : 'http'}://${urlHost}:${listening.port}`;
}

/**
 * Returns the host for clients on the same machine: loopback for a wildcard address, which clients
 * cannot connect to and certificates do not name.
 */
export function reachableHost(host: string): string {
  const isWildcard = parseAddress(host)?.every((byte) => byte === 0) ?? false;
  if (!isWildcard) return host;
  return host.includes(':') ? '::1' : '127.0.0.1';
}

/** Returns an error of listening as a `StartRefused` for the operator; any other error unchanged. */
export function listenRefusal(
  error: unknown,
  { host, port, portVariable, hostVariable = 'LEAT_HOST' }: ListenAddress,
): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'EADDRINUSE') {
    const next = port === 65_535 ? 8080 : port + 1;
    return new StartRefused(
      `${portVariable}: ${port} on ${host} is in use, choose another, for example ${portVariable}=${next}`,
      { cause: error },
    );
  }
  if (code === 'EACCES') {
    return new StartRefused(
      `${portVariable}: ${port} needs privileges that this user lacks, for example ${portVariable}=8080`,
    );
  }
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
    return new StartRefused(
      `${hostVariable}: "${host}" is not an address of this machine, for example ${hostVariable}=127.0.0.1`,
    );
  }
  return error;
}
