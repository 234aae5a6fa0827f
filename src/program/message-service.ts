import assert from 'node:assert/strict';
import { once } from 'node:events';
import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { get, type IncomingMessage } from 'node:http';
import { get as getSecurely, type RequestOptions } from 'node:https';
import { Readable } from 'node:stream';
import type { Logger } from 'pino';
import type { FetchDeps } from '../auth/bounded-fetch.ts';
import { createRemoteKeys, keySetAt, keySetOfIssuer } from '../auth/remote-keys.ts';
import { issuerOf } from '../auth/issuer.ts';
import { type Config, endsTls, tenantDomainOf, usesPlainHttp } from '../config.ts';
import { badPortProblem } from '../core/bad-port.ts';
import type { Clock } from '../core/clock.ts';
import { listenRefusal, urlOf } from './listen-address.ts';
import { createMessageServer } from '../messages/server.ts';
import type { MessageSettings } from '../messages/settings.ts';
import { trustedFileOf } from './tls.ts';

/** A running message API. */
export interface MessageService {
  /** `http://host:port` for clients on the same machine. */
  readonly url: string;
  /** Stops listening and waits for requests in progress. */
  stop(): Promise<void>;
}

/** The issuer whose tokens the message API accepts, and where it publishes its keys. */
export interface Issuer {
  /** `iss` of its tokens. */
  readonly issuer: string;
  /** Absent: the discovery document has it. */
  readonly keySetUrl?: string;
  /** `Host` header of the request for the keys; default: the host of the URL. */
  readonly keySetHost?: string;
  /**
   * PEM file: the server of the keys must have its first certificate or one signed by it. Absent:
   * the certificate authorities of the system are trusted.
   */
  readonly keySetCertificate?: string | undefined;
}

export interface MessageServiceDeps {
  readonly settings: Omit<MessageSettings, 'issuerDomain' | 'watchdogSeconds'>;
  readonly issuer: Issuer;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Starts the message API. Throws `StartRefused` when it cannot listen. */
export async function startMessageService(deps: MessageServiceDeps): Promise<MessageService> {
  const { settings, issuer, clock, log } = deps;
  const report = (error: unknown): void =>
    log.warn({ err: error }, 'the keys of the issuer cannot be fetched');
  const keys = createRemoteKeys(
    { fetch: await fetchFrom(issuer), clock, report },
    issuer.keySetUrl === undefined ? keySetOfIssuer(issuer.issuer) : keySetAt(issuer.keySetUrl),
  );
  const server = createMessageServer({
    origin: settings.origin,
    trust: {
      issuer: issuer.issuer,
      audience: settings.audience,
      keys: { ...keys, rules: settings.claims },
    },
    clock,
    report: (error) => log.error({ err: error }, 'a request failed'),
    connections: settings,
    keepAliveSeconds: settings.keepAliveSeconds,
    log,
  });
  const portProblem = badPortProblem(settings.port);
  if (portProblem !== undefined) log.warn(`${settings.portVariable}: ${portProblem}`);
  try {
    await server.listen(settings);
  } catch (error) {
    throw listenRefusal(error, settings);
  }
  return { url: urlOf(settings, { tls: false }), stop: () => server.close() };
}

/**
 * Returns the authorization server of the settings, else the first tenant of the service with this
 * configuration, whose keys are fetched from the service's own listening address.
 */
export function issuerFor(
  { issuerDomain }: Pick<MessageSettings, 'issuerDomain'>,
  service?: Config,
): Issuer {
  if (issuerDomain !== undefined) return issuerAt(issuerDomain);
  assert(service !== undefined, 'no issuer is configured');
  return issuerOfService(service);
}

/** An issuer that is more than a domain publishes its keys anywhere. */
function issuerAt(location: string): Issuer {
  if (location.includes('/')) return { issuer: location };
  const issuer = `https://${location}/`;
  return { issuer, keySetUrl: `${issuer}.well-known/jwks.json` };
}

function issuerOfService(config: Config): Issuer {
  const domain = tenantDomainOf(config);
  return {
    issuer: issuerOf(domain, usesPlainHttp(config, domain)),
    keySetUrl: `${urlOf(config, { tls: endsTls(config) })}/.well-known/jwks.json`,
    keySetHost: domain,
    keySetCertificate: trustedFileOf(config),
  };
}

/**
 * Returns a `fetch` that sets the `Host` header, by which a service with several tenants chooses the
 * keys. The global `fetch` cannot set it, and fails on a `100 Continue` that it did not ask for.
 */
async function fetchFrom({
  keySetHost: host,
  keySetCertificate,
}: Issuer): Promise<FetchDeps['fetch']> {
  const tlsOptions =
    keySetCertificate === undefined ? undefined : await trustCertificate(keySetCertificate);
  return async (url, { signal }) => {
    const options = {
      headers: host === undefined ? {} : { host },
      ...(signal instanceof AbortSignal ? { signal } : {}),
    };
    const request = url.startsWith('https:')
      ? getSecurely(url, { ...options, ...(await tlsOptions?.()) })
      : get(url, options);
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    return new Response(Readable.toWeb(response), { status: response.statusCode ?? 500 });
  };
}

/**
 * Returns the TLS options that pin the certificate of a file. It need not name the address of the
 * server. The file is read for each request, because the certificate may be created or renewed at
 * any time. The previous certificate stays trusted: the server uses it until it polls the file.
 */
async function trustCertificate(file: string): Promise<() => Promise<RequestOptions>> {
  let known: readonly string[] = [];
  const refresh = async (): Promise<void> => {
    const current = new X509Certificate(await readFile(file)).toString();
    if (current !== known[0]) known = [current, ...known.slice(0, 1)];
  };
  // It may be renewed before the first request. With LEAT_TLS=local it may not exist yet.
  await refresh().catch(() => {});
  return async () => {
    await refresh();
    return { ca: [...known], allowPartialTrustChain: true, checkServerIdentity: () => undefined };
  };
}
