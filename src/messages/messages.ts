import { readCredentials } from '../auth/credentials.ts';
import type { KeySource, TokenVerifier, TokenVerification } from '../auth/signature.ts';
import type { Millis } from '../core/clock.ts';
import {
  adminPermissions,
  allowedMethods,
  type MessageResponse,
  type MessageResponses,
} from './responses.ts';

/** The parts of a request that the message API uses, from the fast path or from Node's server. */
export interface MessageRequest {
  readonly method: string;
  /** The request target in origin form: a path with its query. */
  readonly target: string;
  /** The value of every `Authorization` header. */
  readonly authorizations: readonly string[];
}

/** The issuer and the audience of accepted tokens. */
export interface Trust {
  /** `iss` of the tokens, compared letter by letter. */
  readonly issuer: string;
  /** `aud` of the tokens. */
  readonly audience: string;
  readonly keys: KeySource;
}

export interface MessageDeps {
  readonly responses: MessageResponses;
  readonly verifier: Pick<TokenVerifier, 'verify'>;
  readonly trust: Trust;
  readonly now: () => Millis;
}

/** Returns the response to a request, without a promise where nothing has to be awaited. */
export type Respond = (request: MessageRequest) => MessageResponse | Promise<MessageResponse>;

/** Creates the three endpoints, with the checks of docs/message-api.md#order-of-checks in that order. */
export function createMessages({ responses, verifier, trust, now }: MessageDeps): Respond {
  const endpoints = new Map<string, Endpoint>([
    ['/api/messages/public', { message: responses.public, needsToken: false }],
    ['/api/messages/protected', { message: responses.protected, needsToken: true }],
    [
      '/api/messages/admin',
      { message: responses.admin, needsToken: true, required: adminPermissions },
    ],
  ]);
  const expected = {
    audience: trust.audience,
    keysOf: (issuer: string) => (issuer === trust.issuer ? trust.keys : undefined),
  };

  const authorize = (
    verification: TokenVerification,
    { message, required }: Endpoint,
  ): MessageResponse => {
    if (verification.kind === 'rejected') {
      const { reason } = verification;
      if (reason === 'unavailable') return responses.unverifiable;
      return reason === 'too_long' ? responses.longToken : responses.badToken;
    }
    const { permissions } = verification.claims;
    return required === undefined || hasAll(permissions, required) ? message : responses.denied;
  };

  return ({ method, target, authorizations }) => {
    const endpoint = endpoints.get(pathOf(target));
    if (endpoint === undefined) return responses.unknownPath;
    if (!allowedMethods.includes(method)) return responses.otherMethod;
    if (method === 'OPTIONS') return responses.preflight;
    if (!endpoint.needsToken) return endpoint.message;
    const found = findToken(authorizations);
    if (found.kind !== 'bearer') return responses[found.kind];
    const verification = verifier.verify(found.token, expected, now());
    if (verification instanceof Promise) {
      return verification.then((settled) => authorize(settled, endpoint));
    }
    return authorize(verification, endpoint);
  };
}

interface Endpoint {
  readonly message: MessageResponse;
  readonly needsToken: boolean;
  /** Permissions that the token must have. */
  readonly required?: readonly string[];
}

/** Returns the path as it was sent, without the query. */
function pathOf(target: string): string {
  const query = target.indexOf('?');
  return query === -1 ? target : target.slice(0, query);
}

type Found =
  | { readonly kind: 'bearer'; readonly token: string }
  | { readonly kind: 'noCredentials' | 'malformedCredentials' | 'otherScheme' };

/** Checks 5 to 7: one header of two parts with the scheme `Bearer`. */
function findToken(authorizations: readonly string[]): Found {
  if (authorizations.length > 1) return { kind: 'malformedCredentials' };
  const { scheme, parts } = readCredentials(authorizations[0]);
  if (scheme === '') return { kind: 'noCredentials' };
  const [token, ...more] = parts;
  if (token === undefined || more.length > 0) return { kind: 'malformedCredentials' };
  return scheme === 'bearer' ? { kind: 'bearer', token } : { kind: 'otherScheme' };
}

/** Returns whether all required permissions are held; false if none is required. */
export function hasAll(held: readonly string[] | undefined, required: readonly string[]): boolean {
  if (held === undefined || required.length === 0) return false;
  return required.every((permission) => held.includes(permission));
}
