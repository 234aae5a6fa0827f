import type { Clock, Millis } from '../core/clock.ts';
import type { SystemAlert } from './alert.ts';
import type { AlertChannel } from './channel.ts';
import { type AlertDispatcherDeps, createAlertDispatcher } from './dispatcher.ts';
import type { ChannelName } from '../core/alert-channels.ts';

export interface AlertTestDeps extends Pick<AlertDispatcherDeps, 'settings' | 'urlOf'> {
  readonly channels: readonly AlertChannel[];
  readonly clock: Clock;
}

export interface AlertTestResult {
  readonly channel: ChannelName;
  /** Why it was not sent, one line without addresses; `undefined` when it was. */
  readonly reason: string | undefined;
}

/**
 * Sends an alert over every channel that says nothing but that alerts arrive: as other alerts are sent,
 * with the same limits, but once and without a queue. `tenant` is the one that it names. Returns the
 * result of each channel, early when aborted.
 */
export async function sendTestAlert(
  deps: AlertTestDeps,
  tenant: { readonly name: string; readonly domain: string },
  signal: AbortSignal,
): Promise<AlertTestResult[]> {
  const { channels, clock } = deps;
  const reasons = new Map<ChannelName, string | undefined>();
  const dispatcher = createAlertDispatcher({
    ...deps,
    report: (_alert, channel, reason) => reasons.set(channel, reason),
  });
  const alert = testAlert(tenant.name, clock.now());
  const outbox = Object.fromEntries(channels.map(({ name }) => [name, [alert]]));
  await dispatcher.startRun(signal).deliver(outbox, tenant.domain, async () => false);
  return channels.map(({ name }) => ({
    channel: name,
    // Without a report it was not tried.
    reason: reasons.has(name) ? reasons.get(name) : 'the program ends',
  }));
}

function testAlert(tenant: string, at: Millis): SystemAlert {
  const sentence = 'this is a test alert, nothing is wrong';
  return { kind: 'test', tenant, sentence, fields: {}, key: 'test', at };
}
