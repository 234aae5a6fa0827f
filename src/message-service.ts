import assert from 'node:assert/strict';
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import type { Logger } from 'pino';
import type { DocumentDeps } from './auth/document.ts';
import { createRemoteKeys, keySetAt } from './auth/remote-keys.ts';
import { issuerOf } from './auth/issuer.ts';
import { type Config, tenantDomainOf, usesPlainHttp } from './config.ts';
import type { Clock } from './core/clock.ts';
import { listenRefusal, urlOf } from './listening.ts';
import { createMessageServer } from './messages/server.ts';
import type { MessageSettings } from './messages/settings.ts';

/** A running message API. */
export interface MessageService {
  /** `http://host:port` it listens on. */
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
    { fetch: fetchUnder(issuer.keySetHost), clock, report },
    keySetAt(issuer.keySetUrl),
  );
  const server = createMessageServer({
    origin: settings.origin,
    trust: { issuer: issuer.issuer, audience: settings.audience, keys },
    clock,
    report: (error) => log.error({ err: error }, 'a request could not be answered'),
  });
  try {
    await server.listen(settings);
  } catch (error) {
    throw listenRefusal(error, settings);
  }
  return { url: urlOf(settings), stop: () => server.close() };
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
  const { port } = config;
  const host = loopbackOf[config.host] ?? config.host;
  return {
    issuer: issuerOf(domain, usesPlainHttp(config, domain)),
    keySetUrl: `${urlOf({ host, port })}/.well-known/jwks.json`,
    keySetHost: domain,
  };
}

/** Where a service that listens on every address is reached from its own machine. */
const loopbackOf: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' };

/**
 * With several tenants the `Host` of a request chooses whose keys are answered; `fetch` does not let
 * it be chosen.
 */
function fetchUnder(host: string | undefined): DocumentDeps['fetch'] {
  if (host === undefined) return fetch;
  return async (url, { signal }) => {
    const request = get(url, {
      headers: { host },
      ...(signal instanceof AbortSignal ? { signal } : {}),
    });
    const [answer] = (await once(request, 'response')) as [IncomingMessage];
    return new Response(Readable.toWeb(answer), { status: answer.statusCode ?? 500 });
  };
}
