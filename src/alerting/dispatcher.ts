import type { Alert } from './alert.ts';
import type { Clock } from '../core/clock.ts';
import type { Outbox, ChannelName } from './outbox.ts';
import { AlertNotSent, type AlertChannel } from './channel.ts';
import type { Log } from '../core/log.ts';

export interface AlertDispatcherSettings {
  /** Alerts under way at once, for each place. */
  readonly atOnce: number;
  /** For one alert, from the name lookup to the end of the answer. */
  readonly timeoutMs: number;
  /** After so many that failed in a row a place is left alone until the next tour. */
  readonly failuresInARowMax: number;
  /**
   * How long a tour begins to send, what else is done meanwhile not counted; what is left waits for
   * the next one.
   */
  readonly runMs: number;
  /** What was sent is kept so often: after a crash it is repeated as far as it was not. */
  readonly turnMs: number;
  /** At the end of the program, alerts under way have this long to end. */
  readonly closingMs: number;
}

export interface AlertDispatcherDeps {
  readonly clock: Clock;
  readonly channels: readonly AlertChannel[];
  readonly settings: AlertDispatcherSettings;
  /** Hears what became of each alert; `reason` when it was not sent and waits. */
  readonly report: (alert: Alert, place: ChannelName, reason: string | undefined) => void;
}

/** Takes alerts to their places, a handful at once, and brings back those that it could not leave. */
export interface AlertDispatcher {
  readonly channels: readonly ChannelName[];
  /** Begins a tour over several tenants; after an abort nothing more is begun. */
  begin(signal: AbortSignal): SendRun;
}

export interface SendRun {
  /**
   * Sends what waits and answers what still does: in the same order, behind it what was tried in
   * vain, so that an alert that cannot be sent never stands before others. From time to time `keep`
   * hears what is left so far; nothing more is begun when it answers false. Rejects only when `keep`
   * does.
   */
  deliver(
    outbox: Outbox,
    domain: string,
    keep: (left: Outbox) => Promise<boolean>,
  ): Promise<Outbox>;
}

export function createAlertDispatcher(deps: AlertDispatcherDeps): AlertDispatcher {
  return {
    channels: deps.channels.map(({ name }) => name),
    begin: (signal) => createSendRun(deps, signal),
  };
}

function createSendRun(
  { clock, channels, settings, report }: AlertDispatcherDeps,
  signal: AbortSignal,
): SendRun {
  let leftMs: number = settings.runMs;
  const failuresInARow = new Map<ChannelName, number>();

  const sendOne = async (sender: AlertChannel, alert: Alert, domain: string): Promise<boolean> => {
    const { name } = sender;
    const reason = await inTime(clock, settings, signal, (cut) =>
      sender.send({ alert, domain }, cut),
    );
    const failures = (failuresInARow.get(name) ?? 0) + 1;
    failuresInARow.set(name, reason === undefined ? 0 : failures);
    report(alert, name, reason);
    return reason === undefined;
  };

  /** Sends to one place until the turn ends, the place fails too often, or all is sent. */
  const deliverTo = async (
    sender: AlertChannel,
    queue: readonly Alert[],
    domain: string,
  ): Promise<Trial> => {
    const turnEndMs = clock.elapsedMs() + Math.min(leftMs, settings.turnMs);
    const failed: Alert[] = [];
    let begun = 0;
    const mayGoOn = (): boolean =>
      !signal.aborted &&
      clock.elapsedMs() < turnEndMs &&
      (failuresInARow.get(sender.name) ?? 0) < settings.failuresInARowMax;
    const work = async (): Promise<void> => {
      while (begun < queue.length && mayGoOn()) {
        const alert = queue[begun++] as Alert;
        if (!(await sendOne(sender, alert, domain))) failed.push(alert);
      }
    };
    await Promise.all(Array.from({ length: settings.atOnce }, work));
    return { untried: queue.slice(begun), failed };
  };

  return {
    deliver: async (outbox, domain, keep) => {
      let waiting = outbox;
      let failed: Outbox = {};
      for (;;) {
        const before = countOf(waiting);
        const turnBeganMs = clock.elapsedMs();
        const trials = await Promise.all(
          channels.map(async (sender): Promise<[ChannelName, Trial]> => {
            const { name } = sender;
            return [name, await deliverTo(sender, waiting[name] ?? [], domain)];
          }),
        );
        leftMs -= clock.elapsedMs() - turnBeganMs;
        waiting = outboxOf(trials.map(([place, trial]) => [place, trial.untried]));
        failed = joined(failed, outboxOf(trials.map(([place, trial]) => [place, trial.failed])));
        const left = joined(waiting, failed);
        const count = countOf(waiting);
        if (count === 0 || count === before || !(await keep(left))) return left;
      }
    },
  };
}

interface Trial {
  readonly untried: readonly Alert[];
  readonly failed: readonly Alert[];
}

function outboxOf(queues: readonly (readonly [ChannelName, readonly Alert[]])[]): Outbox {
  return Object.fromEntries(queues.filter(([, queue]) => queue.length > 0));
}

function joined(one: Outbox, other: Outbox): Outbox {
  const places = new Set([...Object.keys(one), ...Object.keys(other)] as ChannelName[]);
  return outboxOf(
    [...places].map((place) => [place, [...(one[place] ?? []), ...(other[place] ?? [])]]),
  );
}

function countOf(outbox: Outbox): number {
  return Object.values(outbox).reduce((sum, queue) => sum + queue.length, 0);
}

/** One log entry for each alert: that it was sent, or why not. */
export function logAlert(
  log: Pick<Log, 'info' | 'warn'>,
  alert: Alert,
  place: ChannelName,
  reason: string | undefined,
): void {
  const about = { tenant: alert.tenant, stream: alert.stream?.id, alert: alert.kind, place };
  if (reason === undefined) log.info(about, 'alert sent');
  else log.warn({ ...about, reason }, 'an alert could not be sent; the next look tries again');
}

/** A sender that was cut off has so long to say whether the alert was taken all the same. */
const CLOSING_SEND_MS = 1000;

/**
 * Why it was not sent, or `undefined`. Ends in time although the sender may not. One whose time is
 * over still has the last word: a chat tool that took the alert and never ends its answer would get
 * it anew at every look.
 */
async function inTime(
  clock: Clock,
  { timeoutMs, closingMs }: AlertDispatcherSettings,
  signal: AbortSignal,
  send: (cut: AbortSignal) => Promise<void>,
): Promise<string | undefined> {
  const cut = new AbortController();
  const late = Promise.withResolvers<string>();
  let over: string | undefined;
  const giveUp = (reason: string): void => {
    over ??= reason;
    timers.push(clock.after(CLOSING_SEND_MS, () => late.resolve(reason)));
    cut.abort();
  };
  const timers = [clock.after(timeoutMs, () => giveUp(`no answer within ${timeoutMs / 1000} s`))];
  const close = (): void => {
    timers.push(clock.after(closingMs, () => giveUp('the program ends')));
  };
  signal.addEventListener('abort', close, { once: true });
  const sent = send(cut.signal).then(
    () => undefined,
    (error: unknown) => over ?? (error instanceof AlertNotSent ? error.message : 'it failed'),
  );
  try {
    return await Promise.race([late.promise, sent]);
  } finally {
    signal.removeEventListener('abort', close);
    for (const timer of timers) timer.cancel();
  }
}
