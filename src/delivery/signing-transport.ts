import type { Millis } from '../core/clock.ts';
import { type AttemptResult, cancelled, type SendResult } from '../core/retry.ts';
import type { WebhookKey } from '../core/sign.ts';
import type { PendingRequest, Transport, WebhookRequest } from './http/transport.ts';
import { prepareRequest, type RequestTemplate, type SentEvent, signRequest } from './request.ts';

/** An event for a receiver, not signed yet. */
export interface UnsignedRequest {
  readonly template: RequestTemplate;
  readonly event: SentEvent;
  /** The time of the signatures. */
  readonly at: Millis;
  /** The key of the tenant, where the template has {@link RequestTemplate.hasKey}. */
  readonly key?: WebhookKey | undefined;
  /** Sent as the authorization; no signature covers it. */
  readonly accessToken?: string | undefined;
}

/** Signs webhooks and sends them. */
export interface SigningTransport extends Pick<Transport, 'prepare' | 'isReady' | 'close'> {
  /** Begins an attempt, as {@link Transport.post} does. Never throws. */
  post(request: UnsignedRequest): PendingRequest;
}

/**
 * Creates a transport that signs on this thread. An event whose request cannot be built ends with an
 * error: the API accepts no stream with one. If there is one, its deliveries fail visibly, and other
 * streams are not affected.
 *
 * @param unexpected receives why a request could not be built
 */
export function createSigningTransport(
  transport: Transport,
  unexpected: (error: unknown) => void,
): SigningTransport {
  const failed = (error: unknown): AttemptResult => {
    unexpected(error);
    return noRequest;
  };
  return {
    prepare: (tenant, origin, needs) => transport.prepare(tenant, origin, needs),
    isReady: (origin, needs) => transport.isReady(origin, needs),
    post: (request) => {
      const { template, event, at, key, accessToken } = request;
      if (key !== undefined) {
        const signing = signRequest(template, event, at, key);
        const authorized = signing.then((signed) => withToken(signed, accessToken));
        return postSigned(transport, authorized, failed);
      }
      try {
        return transport.post(withToken(prepareRequest(template, event, at), accessToken));
      } catch (error) {
        return endedWith(failed(error));
      }
    },
    close: () => transport.close(),
  };
}

/** The result of an attempt whose request could not be built. */
export const noRequest: AttemptResult = { kind: 'error', cause: 'protocol', detail: 'no request' };

/** Returns a request that has ended. */
export function endedWith(result: SendResult): PendingRequest {
  return { ended: Promise.resolve(result), waitedMs: 0, cancel: () => undefined };
}

function withToken(request: WebhookRequest, accessToken: string | undefined): WebhookRequest {
  if (accessToken !== undefined) request.headers.push('authorization', `Bearer ${accessToken}`);
  return request;
}

/**
 * Posts a request that is still being signed. An attempt that is cancelled before is not sent.
 *
 * @param failed returns the result of an attempt that cannot be signed
 */
export function postSigned(
  transport: Pick<Transport, 'post'>,
  signing: Promise<WebhookRequest>,
  failed: (error: unknown) => AttemptResult,
): PendingRequest {
  let isCancelled = false;
  let request: PendingRequest | undefined;
  const post = async (): Promise<SendResult> => {
    try {
      const signed = await signing;
      if (isCancelled) return cancelled;
      request = transport.post(signed);
    } catch (error) {
      return failed(error);
    }
    return request.ended;
  };
  return {
    ended: post(),
    get waitedMs() {
      return request?.waitedMs ?? 0;
    },
    get tokens() {
      return request?.tokens ?? none;
    },
    cancel: () => {
      isCancelled = true;
      request?.cancel();
    },
  };
}

const none: readonly string[] = [];
