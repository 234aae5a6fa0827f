import { type Static, Type } from 'typebox';
import { alertChannel } from './alert-test.ts';
import { closed, component, time } from './schema.ts';

const textOrNull = (description: string) =>
  Type.Union([Type.String(), Type.Null()], { description });

const setting = closed(
  {
    name: Type.String({ examples: ['LEAT_PORT'], description: 'Variable of the environment' }),
    value: textOrNull('Text in force, secrets replaced by ***; null when not set'),
    default: textOrNull('Text of the default, or a word such as generated; null without one'),
    is_default: Type.Boolean({ description: 'Whether nobody has set it' }),
    meaning: Type.String({ description: 'What it means' }),
  },
  { description: 'A setting' },
);

const key = closed(
  {
    kid: Type.String({ description: 'Its id in the key set' }),
    signs: Type.Enum(['access tokens', 'webhooks'], { description: 'What it signs' }),
    signs_from: time,
    expires_at: Type.Union([time, Type.Null()], {
      description: 'From then on it is no longer published; null until a newer key replaces it',
    }),
    is_signing: Type.Boolean({ description: 'Whether it signs now' }),
  },
  { description: 'A key of the first tenant' },
);

const channel = closed(
  {
    channel: alertChannel,
    target: Type.Optional(
      Type.String({ description: 'Where they are sent, secrets replaced by ***; not of the log' }),
    ),
  },
  { description: 'A channel' },
);

/** The settings of a node. */
export const nodeSettings = component('NodeSettings', 'The settings of the node that responds', {
  settings: Type.Array(setting, { description: 'In the order of leat config' }),
  keys: Type.Array(key, { description: 'Those that are published, newest first' }),
  alert_channels: Type.Array(channel, { description: 'Where alerts are sent' }),
});

export type NodeSettingsShown = Static<typeof nodeSettings>;
