import { type Alert, isStreamAlert, type StreamAlert } from './alert.ts';

/** Where alerts go; `log` when there is no other place. */
export type ChannelName = 'webhook' | 'email' | 'log';

/** Alerts that are still to be sent, by place, the one that waits longest first. */
export type Outbox = Readonly<Partial<Record<ChannelName, readonly Alert[]>>>;

/**
 * Three alerts for each of 10,000 streams: only streams that are disabled again and again while
 * nothing can be sent come to more.
 */
export const outboxMax = 30_000;

/**
 * Adds alerts to what waits for each of the places; beyond {@link outboxMax} the oldest are
 * dropped, and so is what waits for a place that there is no more.
 *
 * While an alert waits, the next one of its kind about its stream takes its place and the new
 * failures of both are added up: when a chat tool is back after a night it gets one message for
 * each stream, not one for each look of the night. Each automatic disabling stays an alert of its
 * own.
 */
export function addToOutbox(
  outbox: Outbox,
  alerts: readonly Alert[],
  places: readonly ChannelName[],
): { readonly outbox: Outbox; readonly dropped: number } {
  let dropped = 0;
  for (const [place, waiting] of Object.entries(outbox)) {
    if (!places.some((other) => other === place)) dropped += waiting.length;
  }
  const queues = places.map((place): [ChannelName, readonly Alert[]] => {
    const queue = merged([...(outbox[place] ?? []), ...alerts]);
    dropped += Math.max(0, queue.length - outboxMax);
    return [place, queue.slice(-outboxMax)];
  });
  return { outbox: Object.fromEntries(queues.filter(([, queue]) => queue.length > 0)), dropped };
}

/** A newer alert stands where it came in: at the end, behind what waits longer. */
function merged(alerts: readonly Alert[]): Alert[] {
  const queue = new Map<string, Alert>();
  for (const alert of alerts) {
    const key = keyOf(alert);
    const older = queue.get(key);
    queue.delete(key);
    const before = countsFailures(older) ? older.newFailures : 0;
    const sum = countsFailures(alert)
      ? { ...alert, newFailures: alert.newFailures + before }
      : alert;
    queue.set(key, sum);
  }
  return [...queue.values()];
}

function countsFailures(alert: Alert | undefined): alert is StreamAlert {
  return alert?.kind === 'delivery_failures';
}

function keyOf(alert: Alert): string {
  if (!isStreamAlert(alert)) return alert.key;
  const { kind, stream, at } = alert;
  return kind === 'stream_disabled' ? `${kind} ${stream.id} ${at}` : `${kind} ${stream.id}`;
}
