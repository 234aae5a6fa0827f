import { alertBody } from './alert.ts';
import { AlertNotSent, type AlertChannel, labelOf } from './channel.ts';

/** Read of an answer before its connection is dropped; nobody looks at it. */
const ANSWER_BYTES_MAX = 64 * 1024;

export interface AlertWebhookDeps {
  /** The platform's `fetch`, as an argument. */
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
  /** As the operator set it; who knows its path may write to the channel behind. */
  readonly url: string;
  readonly userAgent: string;
}

/** Posts alerts as JSON. Any 2xx is taken for sent; a redirect is not followed and is none. */
export function createAlertWebhook({ fetch, url, userAgent }: AlertWebhookDeps): AlertChannel {
  return {
    name: 'webhook',
    send: async ({ alert }, signal) => {
      const answer = await fetch(url, {
        method: 'POST',
        redirect: 'manual',
        headers: { 'content-type': 'application/json', 'user-agent': userAgent },
        body: JSON.stringify(alertBody(alert)),
        signal,
      }).catch((error: unknown) => {
        throw new AlertNotSent(labelOf(error), { cause: error });
      });
      // The status has decided; what comes after it only frees the connection for the next alert.
      await readAway(answer).catch(() => undefined);
      if (!answer.ok) throw new AlertNotSent(`status ${answer.status}`);
    },
  };
}

async function readAway({ body }: Response): Promise<void> {
  let bytes = 0;
  for await (const chunk of body ?? []) {
    bytes += (chunk as Uint8Array).byteLength;
    // Leaving the loop cancels the body.
    if (bytes > ANSWER_BYTES_MAX) return;
  }
}
