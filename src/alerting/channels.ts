import type { Clock } from '../core/clock.ts';
import { type AlertLog, createAlertLog } from './log-channel.ts';
import { type AlertMailSettings, createAlertMail } from './mail-channel.ts';
import type { AlertChannel } from './channel.ts';
import { type AlertWebhookDeps, createAlertWebhook } from './webhook-channel.ts';

/** The channels that the operator set; `alertEmail` and `smtpUrl` need each other. */
export interface AlertChannelSettings {
  readonly alertWebhookUrl?: string | undefined;
  readonly alertEmail?: string | undefined;
  readonly smtpUrl?: string | undefined;
}

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
