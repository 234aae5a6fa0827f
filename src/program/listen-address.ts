import { parseAddress } from '../core/address.ts';
import { StartRefused } from '../core/errors.ts';

/** An address to listen on, and the variable that chooses its port. */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
  readonly portVariable: string;
  /** The variable that chooses its host; LEAT_HOST unless told otherwise. */
  readonly hostVariable?: string;
}

/** `http://host:port`, as a client on the same machine writes it; `https://` where TLS ends here. */
export function urlOf(
  listening: Pick<ListenAddress, 'host' | 'port'>,
  { tls }: { readonly tls: boolean },
): string {
  const host = reachableHost(listening.host);
  const written = host.includes(':') ? `[${host}]` : host;
  return `${tls ? 'https' : 'http'}://${written}:${listening.port}`;
}

/**
 * Where a client on the same machine reaches what listens there: a wildcard is the address of
 * nobody, and no certificate names it.
 */
export function reachableHost(host: string): string {
  const isWildcard = parseAddress(host)?.every((byte) => byte === 0) ?? false;
  if (!isWildcard) return host;
  return host.includes(':') ? '::1' : '127.0.0.1';
}

/** The line for the operator where the system refuses to listen; other errors stay as they are. */
export function listenRefusal(
  error: unknown,
  { host, port, portVariable, hostVariable = 'LEAT_HOST' }: ListenAddress,
): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'EADDRINUSE') {
    const next = port === 65_535 ? 8080 : port + 1;
    return new StartRefused(
      `${portVariable}: ${port} on ${host} is in use, choose another, for example ${portVariable}=${next}`,
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
