import type { ChannelSettingKey } from '../core/alert-channels.ts';
import type { Clock } from '../core/clock.ts';
import { type AlertMailSettings, createAlertMail } from './mail-channel.ts';
import { type AlertChannel, AlertNotSent, labelOf } from './channel.ts';
import { alertBody, chatText } from './alert-body.ts';
import { createYield } from '../core/sleep.ts';

/** The channels that the operator set; `alertEmail` and `smtpUrl` need each other. */
export type AlertChannelSettings = {
  readonly [Key in ChannelSettingKey | 'smtpUrl']?: string | undefined;
};

export interface AlertChannelsDeps
  extends Omit<AlertWebhookDeps, 'url'>, Pick<AlertMailSettings, 'lookup'> {
  readonly log: AlertLog;
  readonly clock: Pick<Clock, 'after' | 'elapsedMs'>;
}

/** Creates the channels that are set, else the log channel. */
export function createAlertChannels(
  settings: AlertChannelSettings,
  deps: AlertChannelsDeps,
): AlertChannel[] {
  const { alertWebhookUrl: url, alertEmail: to, smtpUrl } = settings;
  const channels = [
    ...(url === undefined ? [] : [createAlertWebhook({ ...deps, url })]),
    ...(to === undefined || smtpUrl === undefined
      ? []
      : [createAlertMail({ smtpUrl, to, lookup: deps.lookup })]),
  ];
  return channels.length > 0 ? channels : [createAlertLog(deps.log, deps.clock)];
}

interface AlertLog {
  error(fields: object, message: string): void;
}

/** Creates the channel for a service without others: one log entry of level error per alert. */
export function createAlertLog(
  log: AlertLog,
  clock: Pick<Clock, 'after' | 'elapsedMs'>,
): AlertChannel {
  const yieldToOthers = createYield(clock);
  return {
    name: 'log',
    send: async ({ alert, url }, signal) => {
      const { text, ...body } = alertBody(alert, url);
      log.error({ alert: body }, text);
      await yieldToOthers(signal);
    },
  };
}

/** Read of a response, which is ignored, before its connection is closed. */
const RESPONSE_BYTES_MAX = 64 * 1024;

interface AlertWebhookDeps {
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
