import type { Alert } from '../alerting/alert.ts';
import { alertBody, causeText } from '../alerting/alert-body.ts';
import { type AlertDispatcher, createAlertDispatcher } from '../alerting/dispatcher.ts';
import { createAlertMail } from '../alerting/mail-channel.ts';
import { addToOutbox, type ChannelName } from '../alerting/outbox.ts';
import { evaluate, initialState } from '../alerting/rules.ts';
import { createAlertWebhook } from '../alerting/webhook-channel.ts';
import { formatTime } from '../core/date.ts';
import { printable } from '../core/setting.ts';
import { sleep } from '../core/sleep.ts';
import { alertLimits } from '../settings/alerting.ts';
import type { CommonOptions, ApiRun } from './command.ts';
import { CommandFailed, exitCodes } from './errors.ts';
import { terminalSafe } from './json.ts';
import { type ListsRead, type OpenFailure, readLists } from './monitor-poll.ts';
import { type MonitorState, readState, writeState } from './monitor-state.ts';
import { counted } from './terminal/progress.ts';

/** The options of `leat monitor`. */
export interface MonitorOptions extends CommonOptions {
  readonly once?: boolean;
  readonly verbose?: boolean;
  readonly interval: number;
  readonly state?: string;
  readonly webhookUrl?: string;
  readonly email?: string;
  readonly smtpUrl?: string;
  readonly disableConsecutive: number;
  readonly disableTotal: number;
}

/** Polls until it is interrupted, or once. Throws {@link CommandFailed} when the first poll fails. */
export async function monitor(
  run: ApiRun,
  options: MonitorOptions,
  version: string,
): Promise<void> {
  const { api, clock, random, signal } = run;
  const output = createOutput(run, options);
  const dispatcher = dispatcherOf(run, options, version, output);
  const { state: file, once, interval } = options;
  const empty: MonitorState = { version: 1, server: api.url, alarm: initialState, outbox: {} };
  let state = (file === undefined ? undefined : await readState(file, api.url)) ?? empty;
  const save = async (next: MonitorState): Promise<void> => {
    state = next;
    if (file !== undefined) await writeState(file, next, random);
  };
  // A state that cannot be written would send every alert again: fails before the first one.
  if (file !== undefined) await save(state);

  for (let polls = 0; !signal.aborted; polls++) {
    try {
      await poll({ run, options, output, dispatcher }, state, save);
    } catch (error) {
      // A first poll that fails points to a wrong option; a later failure may be temporary.
      if (once === true || polls === 0 || !(error instanceof CommandFailed)) throw error;
      output.warn(`A poll failed; trying again in ${interval} s: ${error.message}`);
    }
    if (once === true) break;
    await sleep(clock, interval * 1000, signal);
  }
  if (once === true && Object.keys(state.outbox).length > 0) {
    const message = 'Some alerts could not be sent; with --state the next run tries again.';
    throw new CommandFailed(exitCodes.unavailable, message);
  }
}

interface PollContext {
  readonly run: ApiRun;
  readonly options: MonitorOptions;
  readonly output: Output;
  readonly dispatcher: AlertDispatcher;
}

/** Polls once. Saves the alerts before sending them, and those left after sending. */
async function poll(
  { run, options, output, dispatcher }: PollContext,
  before: MonitorState,
  save: (state: MonitorState) => Promise<void>,
): Promise<void> {
  const { api, clock, signal } = run;
  const limits = { consecutive: options.disableConsecutive, total: options.disableTotal };
  const at = clock.now();
  const wait = (delayMs: number): Promise<void> => sleep(clock, delayMs, signal);
  const lists = await readLists(
    { api, clock, wait, onFailure: output.failure },
    before.seen,
    limits.total,
  );
  const { host } = new URL(api.url);
  // Over HTTP a tenant is identified by its domain.
  const health = { tenant: host, at, streams: lists.streams };
  const { alerts, state: alarm } = evaluate(before.alarm, health, limits);
  alerts.forEach(output.alert);
  output.summary(lists.streams);
  const { outbox, dropped } = addToOutbox(before.outbox, alerts, dispatcher.channels);
  if (dropped > 0) output.warn(`Dropped ${counted(dropped, 'alert')} that could not be sent.`);
  const after: MonitorState = { ...before, seen: lists.seen, alarm, outbox };
  await save(after);
  if (Object.keys(outbox).length === 0) return;
  const left = await dispatcher.startRun(signal).deliver(outbox, host, async (unsent) => {
    await save({ ...after, outbox: unsent });
    return true;
  });
  await save({ ...after, outbox: left });
}

function dispatcherOf(
  { api, clock }: ApiRun,
  { webhookUrl: url, email: to, smtpUrl }: MonitorOptions,
  version: string,
  output: Output,
): AlertDispatcher {
  const userAgent = `leat-cli/${version}`;
  const channels = [
    ...(url === undefined ? [] : [createAlertWebhook({ fetch, url, userAgent })]),
    ...(to === undefined || smtpUrl === undefined ? [] : [createAlertMail({ smtpUrl, to })]),
  ];
  // Ctrl-C ends the process, so no send gets a grace period.
  const settings = { ...alertLimits, closingMs: 0 };
  const urlOf = (): string => `${api.url}/`;
  return createAlertDispatcher({ clock, channels, settings, urlOf, report: output.sent });
}

/** Writes the lines of the monitor: text, or with `--json` one JSON object each. */
interface Output {
  readonly failure: (failure: OpenFailure) => void;
  readonly alert: (alert: Alert) => void;
  /** Says what a poll found; only where something is new, or to a user who waits for it. */
  readonly summary: (streams: ListsRead['streams']) => void;
  readonly sent: (alert: Alert, channel: ChannelName, reason: string | undefined) => void;
  readonly warn: (text: string) => void;
}

function createOutput(
  { api, clock, json, terminal }: ApiRun,
  { once, verbose }: MonitorOptions,
): Output {
  const line = (level: 'info' | 'warn' | 'error', msg: string, fields: object): void => {
    const time = formatTime(clock.now());
    if (json) terminal.print(terminalSafe(JSON.stringify({ time, level, msg, ...fields })));
    else if (level === 'warn') terminal.note(`${time}  ${printable(msg)}`);
    else terminal.print(`${time}  ${printable(msg)}`);
  };
  return {
    failure: ({ stream, eventId, eventType, attempts, lastError }) => {
      if (!json && verbose !== true) return;
      const fields = {
        stream,
        event_id: eventId,
        event_type: eventType,
        attempts,
        last_error: lastError,
      };
      const last = lastError === undefined ? '' : `, last: ${lastError}`;
      const text = `open failure: ${stream} ${eventId} ${eventType}, ${counted(attempts, 'attempt')}${last}`;
      line('info', json ? 'open failure' : text, fields);
    },
    alert: (alert) => {
      const { text, ...body } = alertBody(alert, `${api.url}/`);
      line('error', text, { alert: body });
      if (json) return;
      terminal.print(`  ${printable(causeText(body.cause))}`);
      terminal.print(`  Next: ${body.next_command}`);
    },
    summary: (streams) => {
      const isNews = streams.some(({ newFailures }) => newFailures > 0);
      const isAwaited = once === true && terminal.width !== undefined;
      if (!json && (isNews || isAwaited)) line('info', summaryOf(streams), {});
    },
    sent: ({ kind: alert, stream: about }, channel, reason) => {
      const stream = about?.id;
      if (reason === undefined) {
        if (json) line('info', 'alert sent', { alert, stream, place: channel });
        return;
      }
      const text = `an alert could not be sent to the ${channel} (${reason}); the next poll tries again`;
      line('warn', text, { alert, stream, place: channel, reason });
    },
    warn: (text) => line('warn', text, {}),
  };
}

function summaryOf(streams: ListsRead['streams']): string {
  const sum = (count: (stream: ListsRead['streams'][number]) => number): number =>
    streams.reduce((total, stream) => total + count(stream), 0);
  const failing = sum(({ total }) => (total > 0 ? 1 : 0));
  const disabled = sum(({ status }) => (status === 'disabled' ? 1 : 0));
  const open = counted(
    sum(({ total }) => total),
    'open failure',
  );
  const fresh = sum(({ newFailures }) => newFailures);
  const at = failing === 0 ? '' : ` at ${failing} of them`;
  return `${counted(streams.length, 'stream')}, ${disabled} disabled; ${open}${at}, ${fresh} new`;
}
