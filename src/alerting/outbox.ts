import type { ChannelName } from '../core/alert-channels.ts';
import { type Alert, isStreamAlert, type StreamAlert } from './alert.ts';
import { type Causes, joinCauses } from './causes.ts';

/** Queued alerts by channel, oldest first. A stored format. */
export type Outbox = Readonly<Partial<Record<ChannelName, readonly Alert[]>>>;

/**
 * Queued alerts per channel: three for each of 10,000 streams. Only streams that are disabled again
 * and again while nothing can be sent have more.
 */
export const outboxMax = 30_000;

/**
 * Adds alerts to the queue of each channel. Drops the oldest beyond {@link outboxMax}, and the queues
 * of channels that are no longer set.
 *
 * A new alert replaces a queued one of the same kind and stream, with the sum of their new failures:
 * after an outage of a night a chat tool receives one message for each stream, not one for each check.
 * Each automatic disabling stays an alert of its own.
 */
export function addToOutbox(
  outbox: Outbox,
  alerts: readonly Alert[],
  channels: readonly ChannelName[],
): { readonly outbox: Outbox; readonly dropped: number } {
  let dropped = 0;
  for (const [name, queue] of Object.entries(outbox)) {
    if (!channels.some((channel) => channel === name)) dropped += queue.length;
  }
  const queues = channels.map((name): [ChannelName, readonly Alert[]] => {
    const queue = merged([...(outbox[name] ?? []), ...alerts]);
    dropped += Math.max(0, queue.length - outboxMax);
    return [name, queue.slice(-outboxMax)];
  });
  return { outbox: Object.fromEntries(queues.filter(([, queue]) => queue.length > 0)), dropped };
}

/** Merges alerts with the same key; the result is at the position of the newer one. */
function merged(alerts: readonly Alert[]): Alert[] {
  const queue = new Map<string, Alert>();
  for (const alert of alerts) {
    const key = keyOf(alert);
    const older = queue.get(key);
    queue.delete(key);
    const isSum = countsFailures(alert) && countsFailures(older);
    queue.set(key, isSum ? sumOf(alert, older) : alert);
  }
  return [...queue.values()];
}

function sumOf(alert: StreamAlert, older: StreamAlert): StreamAlert {
  return {
    ...alert,
    newFailures: alert.newFailures + older.newFailures,
    ...(alert.causes === undefined ? {} : { causes: joinCauses(alert.causes, causesOf(older)) }),
  };
}

function causesOf({ causes, newFailures }: StreamAlert): Causes {
  return causes ?? { codes: [], others: newFailures };
}

function countsFailures(alert: Alert | undefined): alert is StreamAlert {
  return alert?.kind === 'delivery_failures';
}

function keyOf(alert: Alert): string {
  if (!isStreamAlert(alert)) return alert.key;
  const { kind, stream, at } = alert;
  return kind === 'stream_disabled' ? `${kind} ${stream.id} ${at}` : `${kind} ${stream.id}`;
}
