import { type AttemptResult, cancelled, type SendResult } from '../core/retry.ts';
import type { PendingRequest, Transport, WebhookRequest } from './http/transport.ts';

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
