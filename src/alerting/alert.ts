import type { Millis } from '../core/clock.ts';
import { formatTime } from '../core/date.ts';
import type { HealthLimits } from '../core/types.ts';

export type StreamAlertKind = 'delivery_failures' | 'stream_disabled' | 'threshold_near';

/** What a {@link SystemAlert} can be about; docs/monitoring.md explains each. */
export type SystemAlertKind =
  'clock_skew' | 'clock_step' | 'lag_near' | 'lag_disabled' | 'store_went_back';

/** Something that an operator has to know: no secret and no event data. */
export type Alert = StreamAlert | SystemAlert;

/** What somebody has to know of the failures of a stream. */
export interface StreamAlert {
  readonly kind: StreamAlertKind;
  /** Name of the tenant. */
  readonly tenant: string;
  readonly stream: { readonly id: string; readonly name: string };
  /** Failures recorded since the last look; 0 where another thing is told. */
  readonly newFailures: number;
  readonly total: number;
  /** Absent where it cannot be known: it is not shown over HTTP. */
  readonly consecutive?: number | undefined;
  readonly limits: HealthLimits;
  /** The step of a limit that was reached: 50, 70 or 90; only with `threshold_near`. */
  readonly percent?: number | undefined;
  /** A {@link causeOf}; absent where no failure is at hand. */
  readonly lastError?: string | undefined;
  /** When it was seen. */
  readonly at: Millis;
}

/** A condition of a node, of the store or of a tenant's log, rather than failed deliveries. */
export interface SystemAlert {
  readonly kind: SystemAlertKind;
  /** Name of the tenant; of the first one when the condition concerns all of them. */
  readonly tenant: string;
  /** The stream that it concerns, when it concerns one. */
  readonly stream?: { readonly id: string; readonly name: string } | undefined;
  /** One plain sentence without a line break and without a name that a user chose. */
  readonly sentence: string;
  /** Further fields of the body, in snake_case. */
  readonly fields: Readonly<Record<string, string | number>>;
  /**
   * Identifies the condition: while an alert waits to be sent a later one with the same key replaces
   * it, and a condition that was reported is not reported again for an hour.
   */
  readonly key: string;
  /** When it was seen. */
  readonly at: Millis;
}

/** Narrows an alert to one about the failures of a stream. */
export function isStreamAlert(alert: Alert): alert is StreamAlert {
  return 'newFailures' in alert;
}

/** An alert as JSON; docs/monitoring.md describes both forms. */
export type AlertBody = StreamAlertBody | SystemAlertBody;

/** Further fields depend on the kind. */
export interface SystemAlertBody {
  readonly text: string;
  readonly alert: SystemAlertKind;
  readonly tenant: string;
  readonly stream?: { readonly id: string; readonly name: string };
  readonly time: string;
}

/** The members of docs/monitoring.md#alerts. */
export interface StreamAlertBody {
  readonly text: string;
  readonly alert: StreamAlertKind;
  readonly tenant: string;
  readonly stream: { readonly id: string; readonly name: string };
  readonly new_failures: number;
  readonly total_failures: number;
  readonly consecutive_failures?: number;
  readonly percent?: number;
  readonly last_error?: string;
  readonly time: string;
}

/** An alert as it is sent: JSON whose `text` alone says it all, so that chat tools can show it. */
export function alertBody(alert: StreamAlert): StreamAlertBody;
export function alertBody(alert: Alert): AlertBody;
export function alertBody(alert: Alert): AlertBody {
  return isStreamAlert(alert) ? streamBody(alert) : systemBody(alert);
}

function systemBody(alert: SystemAlert): SystemAlertBody {
  const { kind, tenant, stream, fields, at } = alert;
  return {
    text: alertText(alert),
    alert: kind,
    tenant,
    ...(stream === undefined ? {} : { stream: { id: stream.id, name: stream.name } }),
    ...fields,
    time: formatTime(at),
  };
}

function streamBody(alert: StreamAlert): StreamAlertBody {
  const { consecutive, percent, lastError } = alert;
  return {
    text: alertText(alert),
    alert: alert.kind,
    tenant: alert.tenant,
    stream: { id: alert.stream.id, name: alert.stream.name },
    new_failures: alert.newFailures,
    total_failures: alert.total,
    ...(consecutive === undefined ? {} : { consecutive_failures: consecutive }),
    ...(percent === undefined ? {} : { percent }),
    ...(lastError === undefined ? {} : { last_error: lastError }),
    time: formatTime(alert.at),
  };
}

/** One plain sentence, in one line. */
export function alertText(alert: Alert): string {
  if (!isStreamAlert(alert)) {
    const name = alert.stream === undefined ? '' : `${harmless(alert.stream.name)}: `;
    return `${name}${alert.sentence}`;
  }
  const { lastError, stream } = alert;
  const last = lastError === undefined ? '' : `, last: ${harmless(lastError)}`;
  return `${harmless(stream.name)}: ${said(alert)}${last}`;
}

function said({ kind, newFailures, total, consecutive, limits, percent }: StreamAlert): string {
  if (kind === 'threshold_near') {
    const row =
      consecutive === undefined ? '' : `, ${consecutive} of ${limits.consecutive} in a row`;
    const counts = `(${total} of ${limits.total} open${row})`;
    return `${percent}% of a limit that disables the event stream is reached ${counts}`;
  }
  const inARow = consecutive === undefined ? '' : `, ${consecutive} in a row`;
  const counts = `(${total} open${inARow})`;
  if (kind === 'stream_disabled') {
    return `the event stream was disabled by its delivery failures ${counts}`;
  }
  return `${newFailures} new delivery ${newFailures === 1 ? 'failure' : 'failures'} ${counts}`;
}

const shownMax = 128;

/**
 * The error of a failure without what the receiver said: the part before ` - ` or `: ` only. What
 * other servers write there is cut, as it may be anything.
 */
export function causeOf(error: string): string {
  const [cause = ''] = error.split(/ - |: /, 1);
  return cause.slice(0, 64);
}

/**
 * A name that its owner chose, in the text of somebody else's chat: no line breaks and nothing
 * invisible, and none of the marks that chat tools read as a link or as a call to everybody.
 * The member `stream` has the name letter by letter.
 */
function harmless(name: string): string {
  const shown = Array.from(name.replaceAll(/[\p{C}\p{Zl}\p{Zp}]+/gu, ' '));
  const cut = shown.length > shownMax ? [...shown.slice(0, shownMax - 1), '…'] : shown;
  const shownAs = cut.map((character) => lookalikes[character] ?? character).join('');
  // `[text](address)` is a link in Markdown.
  return shownAs.replaceAll('](', '] (');
}

const lookalikes: Readonly<Record<string, string>> = { '<': '‹', '>': '›', '@': '＠' };
