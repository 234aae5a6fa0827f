import { type Static, Type } from 'typebox';
import { alertChannels, type ChannelName } from '../core/alert-channels.ts';
import { closed, component } from './schema.ts';

/** The name of a channel of alerts. */
export const alertChannel = Type.Enum(Object.keys(alertChannels) as ChannelName[], {
  description: 'Channel of alerts',
});

const result = closed(
  {
    channel: alertChannel,
    sent: Type.Boolean({ description: 'Whether the other side has accepted it' }),
    error_message: Type.Optional(Type.String({ description: 'Why not, one line' })),
  },
  { description: 'The result of a channel' },
);

/** What became of a test alert. */
export const alertTest = component('AlertTest', 'What became of a test alert', {
  channels: Type.Array(result, { description: 'One for each channel' }),
});

export type AlertTestShown = Static<typeof alertTest>;
