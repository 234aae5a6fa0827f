/** TLS that this process terminates: LEAT_TLS_CERT with LEAT_TLS_KEY, or LEAT_TLS=local. */
import type { Logger } from 'pino';
import { createTlsServer, type TlsServer } from '../api/http/tls.ts';
import { type Config, dataFolderOf, endsTls, limits } from '../config.ts';
import type { Clock, RandomBytes } from '../core/clock.ts';
import { literalAddress } from '../core/address.ts';
import { reachableHost } from './listen-address.ts';
import { loadOrCreateLocalTls, localAuthorityFile } from '../tls/local-authority.ts';
import {
  watchCertificate,
  validityProblem,
  readTlsFiles,
  type TlsPaths,
} from '../tls/certificate-files.ts';
import type { Identity } from '../tls/x509.ts';
import type { Store } from '../store/port/store.ts';

/** TLS of a service. */
export interface Tls {
  readonly server: TlsServer;
  /** Loads renewed certificates until aborted. */
  follow(signal: AbortSignal): Promise<void>;
}

export interface TlsDeps {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly log: Logger;
}

/** Checks the files of the settings before a start changes anything. Throws `StartRefused`. */
export async function refuseWrongTlsFiles(config: Config): Promise<void> {
  const paths = pathsOf(config);
  if (paths !== undefined) await readTlsFiles(paths);
}

/** Loads the certificate; returns `undefined` without TLS settings. Throws `StartRefused`. */
export async function openTls(
  tenants: Pick<Store['tenants'], 'list'>,
  deps: TlsDeps,
): Promise<Tls | undefined> {
  const { config, clock, log } = deps;
  if (!endsTls(config)) return undefined;
  const load = (): Promise<Identity> => loadIdentity(tenants, deps);
  const identity = await load();
  const warn = (found: Identity): void => {
    const objection = validityProblem(found, clock.now());
    if (objection !== undefined) log.warn(`LEAT_TLS_CERT: ${objection}`);
  };
  warn(identity);
  const server = createTlsServer(identity);
  const renew = (found: Identity): void => {
    server.renew(found);
    log.info('a renewed certificate is in use');
    warn(found);
  };
  const report = (error: unknown): void => {
    log.warn({ err: error }, 'the certificate cannot be read again; the former one stays in use');
  };
  const { everyMs } = limits.tls;
  return {
    server,
    follow: (signal) => watchCertificate({ identity, load, renew, report, clock, everyMs }, signal),
  };
}

/** Returns the PEM file of the service's own certificate authority (LEAT_TLS=local). */
export function authorityFileOf(config: Config): string | undefined {
  return config.tls === 'local' ? localAuthorityFile(dataFolderOf(config)) : undefined;
}

/** Returns the PEM file whose first certificate a client must trust to connect to the service. */
export function trustedFileOf(config: Config): string | undefined {
  return authorityFileOf(config) ?? config.tlsCertPath;
}

async function loadIdentity(
  tenants: Pick<Store['tenants'], 'list'>,
  { config, clock, random, log }: TlsDeps,
): Promise<Identity> {
  const paths = pathsOf(config);
  if (paths !== undefined) return readTlsFiles(paths);
  const domains = (await tenants.list()).map(({ domain }) => domain);
  const hosts = domains.map(hostOf);
  const folder = dataFolderOf(config);
  const replaced = (reason: string): void => {
    const file = localAuthorityFile(folder);
    log.warn(
      `the local certificate authority is replaced because ${reason}: clients must trust ${file} again`,
    );
  };
  const deps = { now: clock.now(), random, replaced };
  return loadOrCreateLocalTls(folder, [...hosts, reachableHost(config.host)], deps);
}

function pathsOf({ tlsCertPath, tlsKeyPath }: Config): TlsPaths | undefined {
  if (tlsCertPath === undefined || tlsKeyPath === undefined) return undefined;
  return { certPath: tlsCertPath, keyPath: tlsKeyPath };
}

/** Returns the host of a domain, without its port and the brackets of an IPv6 address. */
function hostOf(domain: string): string {
  const host = domain.replace(/:[0-9]+$/, '');
  return literalAddress(host) ?? host;
}
