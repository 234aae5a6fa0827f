import assert from 'node:assert/strict';
import { once } from 'node:events';
import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { get, type IncomingMessage } from 'node:http';
import { get as getSecurely, type RequestOptions } from 'node:https';
import { Readable } from 'node:stream';
import type { Logger } from 'pino';
import type { FetchJsonDeps } from '../auth/fetch-json.ts';
import { createRemoteKeys, keySetAt } from '../auth/remote-keys.ts';
import { issuerOf } from '../auth/issuer.ts';
import { type Config, endsTls, tenantDomainOf, usesPlainHttp } from '../config.ts';
import type { Clock } from '../core/clock.ts';
import { listenRefusal, urlOf } from './listen-address.ts';
import { createMessageServer } from '../messages/server.ts';
import type { MessageSettings } from '../messages/settings.ts';
import { trustedFileOf } from './tls.ts';

/** A running message API. */
export interface MessageService {
  /** `http://host:port` of it, for clients on the same machine. */
  readonly url: string;
  /** Lets requests under way end. */
  stop(): Promise<void>;
}

/** Whose tokens the message API accepts, and where that issuer publishes its keys. */
export interface Issuer {
  /** `iss` of its tokens. */
  readonly issuer: string;
  readonly keySetUrl: string;
  /** `Host` of the request for the keys where it is not that of the URL. */
  readonly keySetHost?: string;
  /**
   * PEM file whose first certificate the server of the keys has, or has been signed by; nobody else
   * is believed to be it. Absent where the usual authorities say who it is.
   */
  readonly keySetCertificate?: string | undefined;
}

export interface MessageServiceDeps {
  readonly settings: Omit<MessageSettings, 'issuerDomain'>;
  readonly issuer: Issuer;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Listens. Throws `StartRefused` when it cannot. */
export async function startMessageService(deps: MessageServiceDeps): Promise<MessageService> {
  const { settings, issuer, clock, log } = deps;
  const report = (error: unknown): void =>
    log.warn({ err: error }, 'the keys of the issuer cannot be fetched');
  const keys = createRemoteKeys(
    { fetch: await fetchFrom(issuer), clock, report },
    keySetAt(issuer.keySetUrl),
  );
  const server = createMessageServer({
    origin: settings.origin,
    trust: { issuer: issuer.issuer, audience: settings.audience, keys },
    clock,
    report: (error) => log.error({ err: error }, 'a request could not be answered'),
    connections: settings,
    log,
  });
  try {
    await server.listen(settings);
  } catch (error) {
    throw listenRefusal(error, settings);
  }
  return { url: urlOf(settings, { tls: false }), stop: () => server.close() };
}

/**
 * The authorization server of the settings; where they name none, that of the first tenant of the
 * service with this configuration, asked for its keys at the service's own listening address.
 */
export function issuerFor(
  { issuerDomain }: Pick<MessageSettings, 'issuerDomain'>,
  service?: Config,
): Issuer {
  if (issuerDomain !== undefined) return issuerAt(issuerDomain);
  assert(service !== undefined, 'nobody issues tokens');
  return issuerOfService(service);
}

function issuerAt(domain: string): Issuer {
  const issuer = `https://${domain}/`;
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
 * With several tenants the `Host` of a request chooses whose keys are answered; `fetch` does not let
 * it be chosen.
 */
async function fetchFrom({
  keySetHost: host,
  keySetCertificate,
}: Issuer): Promise<FetchJsonDeps['fetch']> {
  if (host === undefined) return fetch;
  const trust = keySetCertificate === undefined ? undefined : await trusting(keySetCertificate);
  return async (url, { signal }) => {
    const options = {
      headers: { host },
      ...(signal instanceof AbortSignal ? { signal } : {}),
    };
    const request =
      trust === undefined
        ? get(url, options)
        : getSecurely(url, { ...options, ...(await trust()) });
    const [answer] = (await once(request, 'response')) as [IncomingMessage];
    return new Response(Readable.toWeb(answer), { status: answer.statusCode ?? 500 });
  };
}

/**
 * The certificate need not name the address it is asked at: it is known itself. Read for each
 * request, because it may be made or renewed at any time. The one before is believed too: the
 * service goes on with it until it has looked at the file again.
 */
async function trusting(file: string): Promise<() => Promise<RequestOptions>> {
  let known: readonly string[] = [];
  const look = async (): Promise<void> => {
    const present = new X509Certificate(await readFile(file)).toString();
    if (present !== known[0]) known = [present, ...known.slice(0, 1)];
  };
  // It may be renewed before the first request. With LEAT_TLS=local it may be yet to be made.
  await look().catch(() => {});
  return async () => {
    await look();
    return { ca: [...known], allowPartialTrustChain: true, checkServerIdentity: () => undefined };
  };
}
