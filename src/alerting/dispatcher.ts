import type { Alert } from './alert.ts';
import type { Clock } from '../core/clock.ts';
import type { ChannelName } from '../core/alert-channels.ts';
import type { Outbox } from './outbox.ts';
import { AlertNotSent, type AlertChannel } from './channel.ts';
import type { Log } from '../core/log.ts';

export interface AlertDispatcherSettings {
  /** Alerts in flight per channel. */
  readonly concurrency: number;
  /** For one alert, from the name lookup to the end of the response. */
  readonly timeoutMs: number;
  /** A channel is skipped for the rest of the run after this many failures in a row. */
  readonly failuresInARowMax: number;
  /** Time budget for sending per run; other work is not counted. The rest waits for the next run. */
  readonly runMs: number;
  /** How often what is left is saved while many alerts are sent: a crash repeats those sent since. */
  readonly saveEveryMs: number;
  /** At shutdown, alerts in flight have this long to end. */
  readonly closingMs: number;
}

export interface AlertDispatcherDeps {
  readonly clock: Clock;
  readonly channels: readonly AlertChannel[];
  readonly settings: AlertDispatcherSettings;
  /** Returns the public URL of the tenant with this domain, with its slash. */
  readonly urlOf: (domain: string) => string;
  /** Receives the result for each alert; `reason` when it was not sent. */
  readonly report: (alert: Alert, channel: ChannelName, reason: string | undefined) => void;
}

/** Sends queued alerts over their channels and returns those that could not be sent. */
export interface AlertDispatcher {
  readonly channels: readonly ChannelName[];
  /** Starts a run over several tenants; nothing more is sent after an abort. */
  startRun(signal: AbortSignal): SendRun;
}

export interface SendRun {
  /**
   * Sends queued alerts. Returns those that could not be sent: first those that were not tried, in
   * the same order, then those that failed, so that a failing alert does not block others. Calls
   * `save` with what is left every `saveEveryMs`, and stops when it returns false. Rejects only when
   * `save` does.
   */
  deliver(
    outbox: Outbox,
    domain: string,
    save: (left: Outbox) => Promise<boolean>,
  ): Promise<Outbox>;
}

export function createAlertDispatcher(deps: AlertDispatcherDeps): AlertDispatcher {
  return {
    channels: deps.channels.map(({ name }) => name),
    startRun: (signal) => createSendRun(deps, signal),
  };
}

function createSendRun(
  { clock, channels, settings, urlOf, report }: AlertDispatcherDeps,
  signal: AbortSignal,
): SendRun {
  let leftMs: number = settings.runMs;
  const failuresInARow = new Map<ChannelName, number>();

  const sendOne = async (channel: AlertChannel, alert: Alert, domain: string): Promise<boolean> => {
    const { name } = channel;
    const reason = await sendWithTimeout(clock, settings, signal, (cut) =>
      channel.send({ alert, domain, url: urlOf(domain) }, cut),
    );
    const failures = (failuresInARow.get(name) ?? 0) + 1;
    failuresInARow.set(name, reason === undefined ? 0 : failures);
    report(alert, name, reason);
    return reason === undefined;
  };

  /** Sends over one channel until it is time to save, the channel fails too often, or all is sent. */
  const sendBatch = async (
    channel: AlertChannel,
    queue: readonly Alert[],
    domain: string,
  ): Promise<Batch> => {
    const endMs = clock.elapsedMs() + Math.min(leftMs, settings.saveEveryMs);
    const failed: Alert[] = [];
    let started = 0;
    const mayContinue = (): boolean =>
      !signal.aborted &&
      clock.elapsedMs() < endMs &&
      (failuresInARow.get(channel.name) ?? 0) < settings.failuresInARowMax;
    const work = async (): Promise<void> => {
      while (started < queue.length && mayContinue()) {
        const alert = queue[started++] as Alert;
        if (!(await sendOne(channel, alert, domain))) failed.push(alert);
      }
    };
    await Promise.all(Array.from({ length: settings.concurrency }, work));
    return { untried: queue.slice(started), failed };
  };

  return {
    deliver: async (outbox, domain, save) => {
      let untried = outbox;
      let failed: Outbox = {};
      for (;;) {
        const before = countOf(untried);
        const startedMs = clock.elapsedMs();
        const batches = await Promise.all(
          channels.map(async (channel): Promise<[ChannelName, Batch]> => {
            const { name } = channel;
            return [name, await sendBatch(channel, untried[name] ?? [], domain)];
          }),
        );
        leftMs -= clock.elapsedMs() - startedMs;
        untried = outboxOf(batches.map(([name, batch]) => [name, batch.untried]));
        failed = joined(failed, outboxOf(batches.map(([name, batch]) => [name, batch.failed])));
        const left = joined(untried, failed);
        const count = countOf(untried);
        if (count === 0 || count === before || !(await save(left))) return left;
      }
    },
  };
}

interface Batch {
  readonly untried: readonly Alert[];
  readonly failed: readonly Alert[];
}

function outboxOf(queues: readonly (readonly [ChannelName, readonly Alert[]])[]): Outbox {
  return Object.fromEntries(queues.filter(([, queue]) => queue.length > 0));
}

function joined(one: Outbox, other: Outbox): Outbox {
  const names = new Set([...Object.keys(one), ...Object.keys(other)] as ChannelName[]);
  return outboxOf([...names].map((name) => [name, [...(one[name] ?? []), ...(other[name] ?? [])]]));
}

function countOf(outbox: Outbox): number {
  return Object.values(outbox).reduce((sum, queue) => sum + queue.length, 0);
}

/** Logs for each alert that it was sent, or why not. */
export function logAlert(
  log: Pick<Log, 'info' | 'warn'>,
  alert: Alert,
  channel: ChannelName,
  reason: string | undefined,
): void {
  const fields = {
    tenant: alert.tenant,
    stream: alert.stream?.id,
    alert: alert.kind,
    place: channel,
  };
  if (reason === undefined) log.info(fields, 'alert sent');
  else log.warn({ ...fields, reason }, 'an alert could not be sent; the next check retries it');
}

/** After a cut-off, a channel has this long to report whether the alert was accepted after all. */
const CLOSING_SEND_MS = 1000;

/**
 * Returns why an alert was not sent, or `undefined` when it was. Ends in time even if the channel does
 * not. The result of the channel is used even after the timeout: a chat tool that accepts the alert
 * but never ends its response would otherwise receive it again at each check.
 */
async function sendWithTimeout(
  clock: Clock,
  { timeoutMs, closingMs }: AlertDispatcherSettings,
  signal: AbortSignal,
  send: (cut: AbortSignal) => Promise<void>,
): Promise<string | undefined> {
  const cut = new AbortController();
  const late = Promise.withResolvers<string>();
  let cutReason: string | undefined;
  const cutOff = (reason: string): void => {
    cutReason ??= reason;
    timers.push(clock.after(CLOSING_SEND_MS, () => late.resolve(reason)));
    cut.abort();
  };
  const timers = [clock.after(timeoutMs, () => cutOff(`no response within ${timeoutMs / 1000} s`))];
  const close = (): void => {
    timers.push(clock.after(closingMs, () => cutOff('the program ends')));
  };
  signal.addEventListener('abort', close, { once: true });
  const sent = send(cut.signal).then(
    () => undefined,
    (error: unknown) => cutReason ?? (error instanceof AlertNotSent ? error.message : 'it failed'),
  );
  try {
    return await Promise.race([late.promise, sent]);
  } finally {
    signal.removeEventListener('abort', close);
    for (const timer of timers) timer.cancel();
  }
}
