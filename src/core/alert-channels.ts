/**
 * The channels of alerts: their names in the API and in what is stored, their titles, and the settings that
 * turn them on. `log` is there when there is no other.
 */
export const alertChannels = {
  log: { title: 'Log of Leat', setting: undefined },
  webhook: {
    title: 'Webhook',
    setting: {
      key: 'alertWebhookUrl',
      variable: 'LEAT_ALERT_WEBHOOK_URL',
      value: 'URL',
      example: 'https://hooks.example.com/T0/B0',
      doc: 'where alerts are posted',
      secret: 'path',
    },
  },
  email: {
    title: 'E-mail',
    setting: {
      key: 'alertEmail',
      variable: 'LEAT_ALERT_EMAIL',
      value: 'address',
      example: 'ops@example.com',
      doc: 'where alerts are mailed, together with LEAT_SMTP_URL',
    },
  },
} as const satisfies Record<string, Channel>;

interface Channel {
  readonly title: string;
  readonly setting: ChannelSetting | undefined;
}

interface ChannelSetting {
  /** Its name in the configuration. */
  readonly key: `alert${string}`;
  readonly variable: string;
  readonly value: 'URL' | 'address';
  readonly example: string;
  readonly doc: string;
  /** The part of the value that is never shown. */
  readonly secret?: 'path';
}

export type ChannelName = keyof typeof alertChannels;

/** The names of the settings of channels. */
export type ChannelSettingKey = NonNullable<(typeof alertChannels)[ChannelName]['setting']>['key'];
