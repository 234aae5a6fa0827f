import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { limits } from '../../../src/config.ts';
import type { AttemptResult } from '../../../src/core/retry.ts';
import type { ClientCredentials } from '../../../src/core/types.ts';
import {
  type AccessTokens,
  createAccessTokens,
  type TokenOwner,
  tokenOwnerOf,
} from '../../../src/delivery/http/access-tokens.ts';
import { createAuthorizedTransport } from '../../../src/delivery/authorized-transport.ts';
import { createEgressRule } from '../../../src/delivery/http/egress.ts';
import {
  createTokenEndpoints,
  type TokenEndpoints,
} from '../../../src/delivery/http/token-endpoint.ts';
import type { PendingRequest } from '../../../src/delivery/http/transport.ts';
import {
  createSigningTransport,
  type SigningTransport,
} from '../../../src/delivery/signing-transport.ts';
import { requestTemplateOf } from '../../../src/delivery/request.ts';
import type { ManualClock } from '../../helpers/clock.ts';
import { attempted, createSender, timeoutMs } from '../../helpers/sender.ts';
import { newEvent, newStream } from '../../store/contract/fixture.ts';
import { settings } from '../fixture.ts';

/** The transport with access tokens, over real sockets, with a manual clock. */
export interface TokenFixture {
  readonly clock: ManualClock;
  readonly endpoints: TokenEndpoints;
  readonly tokens: AccessTokens;
  readonly transport: SigningTransport;
  post(origin: string, owner: TokenOwner): PendingRequest;
  send(origin: string, owner: TokenOwner): Promise<AttemptResult>;
}

export function createTokenFixture(
  t: TestContext,
  options: Parameters<typeof createSender>[1] = {},
): TokenFixture {
  const { allow = ['127.0.0.0/8', '::1'], tls } = options;
  const { clock, names, transport: plain } = createSender(t, options);
  const endpoints = createTokenEndpoints({
    clock,
    names,
    egress: createEgressRule({ allow }),
    limits: limits.tokens,
    ...(tls === undefined ? {} : { tls }),
  });
  const tokens = createAccessTokens({ clock, endpoints, limits: limits.tokens });
  const signing = createSigningTransport(plain, (error) => assert.fail(String(error)));
  const transport = createAuthorizedTransport({ transport: signing, tokens, clock, timeoutMs });
  t.after(() => transport.close());
  const post: TokenFixture['post'] = (origin, token) =>
    transport.post({
      template: {
        ...requestTemplateOf(
          { ...newStream(1, 0), subscriptions: [], version: 1, signingSecrets: [] },
          settings,
        ),
        origin,
        token,
      },
      event: newEvent(),
      at: 0,
    });
  const send: TokenFixture['send'] = async (origin, token) =>
    attempted(await post(origin, token).ended);
  return { clock, endpoints, tokens, transport, post, send };
}

export function credentialsOf(
  origin: string,
  changes: Partial<ClientCredentials> = {},
): ClientCredentials {
  const tokenEndpoint = `${origin}/oauth/token`;
  return { tokenEndpoint, clientId: 'leat', clientSecret: 'a secret', ...changes };
}

export function ownerOf(origin: string, changes: Partial<ClientCredentials> = {}): TokenOwner {
  return tokenOwnerOf(1, credentialsOf(origin, changes));
}

/** The body of a response of a token endpoint. */
export function tokenBody(token: string, expiresIn = 3600): string {
  return JSON.stringify({ access_token: token, token_type: 'Bearer', expires_in: expiresIn });
}
