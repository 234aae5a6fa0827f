import { type Millis, timeOfChange } from './clock.ts';
import { sameSelection, selectionNow, withSelection } from './subscription.ts';
import type {
  Authorization,
  ClientCertificate,
  ClientCredentials,
  DeliveryOptions,
  Destination,
  Health,
  Offset,
  Selection,
  SigningSecret,
  Stream,
  StreamStatus,
} from './types.ts';
import { dayMs } from './units.ts';

/** The changes that a PATCH makes to an event stream; absent fields stay as they are. */
export interface StreamPatch {
  readonly name?: string | undefined;
  readonly status?: StreamStatus | undefined;
  readonly types?: readonly string[] | undefined;
  /** A condition as JSON text; null removes it. */
  readonly filter?: string | null | undefined;
  readonly destination?: DestinationPatch | undefined;
  /** Replaces all options; null removes them. */
  readonly delivery?: DeliveryOptions | null | undefined;
  /** Where delivery resumes when the change enables the stream. */
  readonly resume?: 'latest' | 'held' | undefined;
}

/** A complete destination, except that a missing secret stays as it is. */
export interface DestinationPatch {
  readonly type: 'webhook';
  readonly endpoint: string;
  readonly authorization: AuthorizationPatch;
  /** `undefined` keeps the present one, null removes it. */
  readonly clientCertificate?: ClientCertificatePatch | null | undefined;
}

/** A client certificate; a missing key stays as it is. */
export type ClientCertificatePatch = Omit<ClientCertificate, 'privateKey'> & {
  readonly privateKey?: string | undefined;
};

export type AuthorizationPatch =
  | { readonly method: 'basic'; readonly username: string; readonly password?: string | undefined }
  | { readonly method: 'bearer'; readonly token?: string | undefined }
  | {
      readonly method: 'custom_header';
      readonly headerKey: string;
      readonly headerValue?: string | undefined;
    }
  | (Omit<ClientCredentials, 'clientSecret'> & {
      readonly method: 'oauth2_client_credentials';
      readonly clientSecret?: string | undefined;
    });

/** What decides about a PATCH besides the stream itself. */
export interface PatchContext {
  readonly health: Health;
  /** Last offset of the log. */
  readonly head: Offset;
  /** Open failures from which on a stream cannot be enabled. */
  readonly totalLimit: number;
  readonly now: Millis;
}

/** The result of a PATCH. `after` is the same object as before when nothing changes. */
export type PatchDecision =
  | { readonly after: Stream; readonly resume?: 'latest' | 'held' | undefined }
  | { readonly refused: 'too_many_failures' }
  /** The destination changes, so its secret has to be sent again. */
  | { readonly refused: 'secret_missing' | 'key_missing' }
  /** The header of this name would be sent twice. */
  | { readonly refused: 'header_taken'; readonly header: string };

/** Applies a PATCH, all of it or nothing (docs/http-api.md#update-an-event-stream). */
export function applyPatch(
  before: Stream,
  patch: StreamPatch,
  context: PatchContext,
): PatchDecision {
  const enables = before.status === 'disabled' && patch.status === 'enabled';
  if (enables && context.health.total >= context.totalLimit)
    return { refused: 'too_many_failures' };
  const destination = patchDestination(before.destination, patch.destination);
  if ('refused' in destination) return destination;
  const delivery = patch.delivery === undefined ? before.delivery : (patch.delivery ?? undefined);
  const header = headerTaken(delivery, destination.authorization);
  if (header !== undefined) return { refused: 'header_taken', header };
  const after: Stream = {
    ...before,
    name: patch.name ?? before.name,
    status: patch.status ?? before.status,
    subscriptions: patchSelection(before, patch, context.head),
    destination,
    delivery,
    updatedAt: timeOfChange(before.updatedAt, context.now),
  };
  if (!differs(before, after)) return { after: before };
  return enables ? { after, resume: patch.resume ?? 'latest' } : { after };
}

/** Returns the name of the header of the options that the authorization uses too, if there is one. */
export function headerTaken(
  delivery: DeliveryOptions | undefined,
  authorization: Pick<Authorization, 'method'> & { readonly headerKey?: string },
): string | undefined {
  const { headerKey = 'authorization' } = authorization;
  const names = Object.keys(delivery?.headers ?? {});
  return names.find((name) => name.toLowerCase() === headerKey.toLowerCase());
}

/** Returns whether deliveries with these options are signed with the key of the tenant. */
export function needsWebhookKey(delivery: DeliveryOptions | null | undefined): boolean {
  const signature = delivery?.signature ?? 'v1';
  return signature !== 'v1';
}

/** A rotation of the signing secret. */
export interface Rotation {
  readonly secret: string;
  readonly now: Millis;
  /** Time for which requests are signed with the former secret too; by default 24 hours. */
  readonly overlapMs?: number | undefined;
  /** Ends a secret from before the former one that is still valid. */
  readonly force: boolean;
}

/** `rotation_pending`: the previous secret is valid until `until`; a receiver may rely on it. */
export type RotationDecision =
  | { readonly after: Stream }
  | { readonly refused: 'rotation_pending'; readonly until: Millis };

/** Adds a new signing secret; at most one former secret stays valid. */
export function rotateSecret(
  before: Stream,
  { secret, now, overlapMs = dayMs, force }: Rotation,
): RotationDecision {
  const until = previousExpiresAt(before, now);
  if (until !== undefined && !force) return { refused: 'rotation_pending', until };
  const newest: SigningSecret = { secret, createdAt: now, expiresAt: undefined };
  const former = overlapMs === 0 ? [] : before.signingSecrets.slice(0, 1);
  return {
    after: {
      ...before,
      signingSecrets: [newest, ...former.map((last) => ({ ...last, expiresAt: now + overlapMs }))],
    },
  };
}

/** Returns whether requests are still signed with a secret. */
export function isValidAt(
  { expiresAt = Infinity }: Pick<SigningSecret, 'expiresAt'>,
  now: Millis,
): boolean {
  return expiresAt > now;
}

/** Returns until when the former signing secret is valid; `undefined` when none is. */
export function previousExpiresAt(
  { signingSecrets: [, former] }: Pick<Stream, 'signingSecrets'>,
  now: Millis,
): Millis | undefined {
  return former !== undefined && isValidAt(former, now) ? former.expiresAt : undefined;
}

function patchSelection(
  before: Stream,
  { types, filter }: Pick<StreamPatch, 'types' | 'filter'>,
  head: Offset,
): Stream['subscriptions'] {
  const present = selectionNow(before.subscriptions);
  const wanted: Selection = {
    types: types ?? present.types,
    filter: filter === undefined ? present.filter : (filter ?? undefined),
  };
  if (sameSelection(wanted, present)) return before.subscriptions;
  return withSelection(before.subscriptions, wanted, head);
}

/** Returns the new destination, or which secret must be sent again and is missing. */
function patchDestination(
  before: Destination,
  patch: DestinationPatch | undefined,
): Destination | { readonly refused: 'secret_missing' | 'key_missing' } {
  if (patch === undefined) return before;
  const { type, endpoint } = patch;
  const present = endpoint === before.endpoint ? before.authorization : undefined;
  const authorization = withSecret(patch.authorization, present);
  if (authorization === undefined) return { refused: 'secret_missing' };
  const clientCertificate = withKey(patch.clientCertificate, before, endpoint);
  if (clientCertificate === 'key_missing') return { refused: clientCertificate };
  const rest = clientCertificate === undefined ? {} : { clientCertificate };
  return { type, endpoint, authorization, ...rest };
}

/**
 * Returns the certificate with its key: the one sent, else the present one if it and the endpoint are
 * the same.
 */
function withKey(
  sent: DestinationPatch['clientCertificate'],
  before: Destination,
  endpoint: string,
): ClientCertificate | 'key_missing' | undefined {
  if (sent === null) return undefined;
  const present = before.clientCertificate;
  if (sent?.privateKey !== undefined) return { ...sent, privateKey: sent.privateKey };
  if (sent === undefined && present === undefined) return undefined;
  const isSame = sent === undefined || sent.certificate === present?.certificate;
  return isSame && present !== undefined && endpoint === before.endpoint ? present : 'key_missing';
}

/**
 * Returns the authorization with its secret: the one sent, else the one of `present` when everything
 * else is equal; `undefined` when there is neither.
 */
export function withSecret(
  sent: AuthorizationPatch,
  present: Authorization | undefined,
): Authorization | undefined {
  if (sent.method === 'basic') {
    const isSame = present?.method === 'basic' && present.username === sent.username;
    const password = sent.password ?? (isSame ? present.password : undefined);
    return password === undefined ? undefined : { ...sent, password };
  }
  if (sent.method === 'bearer') {
    const token = sent.token ?? (present?.method === 'bearer' ? present.token : undefined);
    return token === undefined ? undefined : { ...sent, token };
  }
  if (sent.method === 'oauth2_client_credentials') {
    const isSame = present?.method === sent.method && sameClient(present, sent);
    const clientSecret = sent.clientSecret ?? (isSame ? present.clientSecret : undefined);
    return clientSecret === undefined ? undefined : { ...sent, clientSecret };
  }
  const isSame = present?.method === 'custom_header' && present.headerKey === sent.headerKey;
  const headerValue = sent.headerValue ?? (isSame ? present.headerValue : undefined);
  return headerValue === undefined ? undefined : { ...sent, headerValue };
}

type Client = Omit<ClientCredentials, 'clientSecret'>;

function sameClient(one: Client, other: Client): boolean {
  return (
    one.tokenEndpoint === other.tokenEndpoint &&
    one.clientId === other.clientId &&
    one.scope === other.scope &&
    one.audience === other.audience
  );
}

function differs(before: Stream, after: Stream): boolean {
  return (
    before.name !== after.name ||
    before.status !== after.status ||
    before.subscriptions !== after.subscriptions ||
    JSON.stringify(before.delivery) !== JSON.stringify(after.delivery) ||
    !sameDestination(before.destination, after.destination)
  );
}

function sameDestination(one: Destination, other: Destination): boolean {
  if (one === other) return true;
  if (one.endpoint !== other.endpoint) return false;
  const [certificate, otherOne] = [one.clientCertificate, other.clientCertificate];
  if (certificate?.certificate !== otherOne?.certificate) return false;
  if (certificate?.privateKey !== otherOne?.privateKey) return false;
  const sent = Object.entries(other.authorization);
  const present: Readonly<Record<string, string | undefined>> = { ...one.authorization };
  return (
    sent.length === Object.keys(present).length &&
    sent.every(([name, value]) => present[name] === value)
  );
}
