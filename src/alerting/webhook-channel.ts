import { alertBody, chatText } from './alert-body.ts';
import { AlertNotSent, type AlertChannel, labelOf } from './channel.ts';

/** Read of a response, which is ignored, before its connection is closed. */
const RESPONSE_BYTES_MAX = 64 * 1024;

export interface AlertWebhookDeps {
  /** The platform's `fetch`, as an argument. */
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
  /** As the operator set it. A secret: its path is the permission to post. */
  readonly url: string;
  readonly userAgent: string;
}

/** Creates a channel that posts alerts as JSON. Any 2xx means sent; redirects are not followed. */
export function createAlertWebhook({ fetch, url, userAgent }: AlertWebhookDeps): AlertChannel {
  return {
    name: 'webhook',
    send: async ({ alert, url: tenantUrl }, signal) => {
      const text = chatText(alert, tenantUrl);
      const response = await fetch(url, {
        method: 'POST',
        redirect: 'manual',
        headers: { 'content-type': 'application/json', 'user-agent': userAgent },
        body: JSON.stringify({ ...alertBody(alert, tenantUrl), text }),
        signal,
      }).catch((error: unknown) => {
        throw new AlertNotSent(labelOf(error), { cause: error });
      });
      // The status decides. Reading the body only frees the connection for the next alert.
      await discardBody(response).catch(() => undefined);
      if (!response.ok) throw new AlertNotSent(`status ${response.status}`);
    },
  };
}

async function discardBody({ body }: Response): Promise<void> {
  let bytes = 0;
  for await (const chunk of body ?? []) {
    bytes += (chunk as Uint8Array).byteLength;
    // Leaving the loop cancels the body.
    if (bytes > RESPONSE_BYTES_MAX) return;
  }
}
