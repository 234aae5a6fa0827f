import type { AlertTarget, NodeFacts } from '../api/node-facts.ts';
import type { AlertChannel } from '../alerting/channel.ts';
import { sendTestAlert } from '../alerting/alert-test.ts';
import { alertChannels, type ChannelName } from '../core/alert-channels.ts';
import { issuerOf } from '../auth/issuer.ts';
import { type Config, limits, showConfig, type Texts, usesPlainHttp } from '../config.ts';
import type { Clock } from '../core/clock.ts';
import { shownText } from '../core/setting.ts';
import { alertingSettings } from '../settings/alerting.ts';
import { showMessageSettings } from '../messages/settings.ts';

export interface NodeFactsDeps {
  readonly config: Config;
  readonly texts: Texts;
  readonly clock: Clock;
  readonly channels: readonly AlertChannel[];
  /** Aborted when the service stops. */
  readonly ending: AbortSignal;
}

/** Returns what this node knows of itself, for its operators. */
export function nodeFactsOf(deps: NodeFactsDeps): NodeFacts {
  const { config, texts, clock, channels, ending } = deps;
  const urlOf = (domain: string): string => issuerOf(domain, usesPlainHttp(config, domain));
  const test = { channels, clock, settings: limits.alerts, urlOf };
  return {
    engine: config.store.engine,
    settings: [...showConfig({ config, texts }), ...showMessageSettings(texts)],
    alertChannels: channels.map(({ name }) => targetOf(name, config)),
    sendTestAlert: (tenant) => sendTestAlert(test, tenant, ending),
  };
}

function targetOf(channel: ChannelName, config: Config): AlertTarget {
  const { setting } = alertChannels[channel];
  if (setting === undefined) return { channel };
  return { channel, target: shownText(alertingSettings[setting.key], config[setting.key] ?? '') };
}
