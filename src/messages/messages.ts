import { readCredentials } from '../auth/credentials.ts';
import type { KeySource, TokenVerifier, TokenVerification } from '../auth/signature.ts';
import type { Millis } from '../core/clock.ts';
import {
  adminPermissions,
  allowedMethods,
  type MessageResponse,
  type MessageResponses,
} from './responses.ts';

/** What the message API is asked, whichever way the request came in. */
export interface MessageRequest {
  readonly method: string;
  /** The request target: a path with its query, or an absolute URL. */
  readonly target: string;
  /** The value of every `Authorization` header. */
  readonly authorizations: readonly string[];
}

/** Whose tokens are accepted, and for what. */
export interface Trust {
  /** `iss` of the tokens, letter by letter. */
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

/** Answers a request. Without a promise where the answer is known at once. */
export type Respond = (asked: MessageRequest) => MessageResponse | Promise<MessageResponse>;

/** The three endpoints, with the checks of docs/message-api.md#order-of-checks in their order. */
export function createMessages({ responses, verifier, trust, now }: MessageDeps): Respond {
  const endpoints = new Map<string, Endpoint>([
    ['/api/messages/public', { answer: responses.public, guarded: false }],
    ['/api/messages/protected', { answer: responses.protected, guarded: true }],
    ['/api/messages/admin', { answer: responses.admin, guarded: true, required: adminPermissions }],
  ]);
  const expected = {
    audience: trust.audience,
    keysOf: (issuer: string) => (issuer === trust.issuer ? trust.keys : undefined),
  };

  const judge = (verdict: TokenVerification, { answer, required }: Endpoint): MessageResponse => {
    if (verdict.kind === 'rejected') {
      return verdict.reason === 'unavailable' ? responses.unverifiable : responses.badToken;
    }
    const { permissions } = verdict.claims;
    return required === undefined || hasAll(permissions, required) ? answer : responses.denied;
  };

  return ({ method, target, authorizations }) => {
    const endpoint = endpoints.get(pathOf(target));
    if (endpoint === undefined) return responses.unknownPath;
    if (!allowedMethods.includes(method)) return responses.otherMethod;
    if (method === 'OPTIONS') return responses.preflight;
    if (!endpoint.guarded) return endpoint.answer;
    const found = findToken(authorizations);
    if (found.kind !== 'bearer') return responses[found.kind];
    const verdict = verifier.verify(found.token, expected, now());
    if (verdict instanceof Promise) return verdict.then((reached) => judge(reached, endpoint));
    return judge(verdict, endpoint);
  };
}

interface Endpoint {
  readonly answer: MessageResponse;
  /** Whether it needs a valid token. */
  readonly guarded: boolean;
  /** Permissions that the token must have besides. */
  readonly required?: readonly string[];
}

/** The path as it was sent: without the query, and without the origin of the absolute form. */
function pathOf(target: string): string {
  const path = target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?]*/i, '');
  const query = path.indexOf('?');
  return query === -1 ? path : path.slice(0, query);
}

type Found =
  | { readonly kind: 'bearer'; readonly token: string }
  | { readonly kind: 'noCredentials' | 'malformedCredentials' | 'otherScheme' };

/** Rows 3 to 5 of the checks: a header, of two parts, with the scheme `Bearer`. */
function findToken(authorizations: readonly string[]): Found {
  if (authorizations.length > 1) return { kind: 'malformedCredentials' };
  const { scheme, parts } = readCredentials(authorizations[0]);
  if (scheme === '') return { kind: 'noCredentials' };
  const [token, ...more] = parts;
  if (token === undefined || more.length > 0) return { kind: 'malformedCredentials' };
  return scheme === 'bearer' ? { kind: 'bearer', token } : { kind: 'otherScheme' };
}

/** Every required permission, letter by letter; where none is required nobody passes. */
export function hasAll(held: readonly string[] | undefined, required: readonly string[]): boolean {
  if (held === undefined || required.length === 0) return false;
  return required.every((permission) => held.includes(permission));
}
