import type { Millis } from '../core/clock.ts';
import type { HealthLimits } from '../core/types.ts';
import type { DisabledReason } from '../store/port/streams.ts';
import type { Causes } from './causes.ts';

export type StreamAlertKind = 'delivery_failures' | 'stream_disabled' | 'threshold_near';

/** Kinds of {@link SystemAlert}; docs/monitoring.md explains each. */
export type SystemAlertKind =
  | 'certificate_expired'
  | 'certificate_near'
  | 'clock_skew'
  | 'clock_step'
  | 'disk_full'
  | 'lag_near'
  | 'lag_disabled'
  | 'results_refused'
  | 'node_shortage'
  | 'store_went_back'
  | 'test';

export type AlertKind = StreamAlertKind | SystemAlertKind;

/** A message to the operator; it has no secret and no event data. */
export type Alert = StreamAlert | SystemAlert;

/** An alert about the failures of a stream. */
export interface StreamAlert {
  readonly kind: StreamAlertKind;
  /** Name of the tenant. */
  readonly tenant: string;
  readonly stream: { readonly id: string; readonly name: string };
  /** Failures since the last check; may be 0 in an alert of another kind. */
  readonly newFailures: number;
  readonly total: number;
  /** Failed deliveries since the last success. */
  readonly consecutive: number;
  readonly limits: HealthLimits;
  /** Why it is disabled; only with `stream_disabled`, where it is known. */
  readonly reason?: DisabledReason | undefined;
  /** Percentage of a limit that was reached: 50, 70 or 90; only with `threshold_near`. */
  readonly percent?: number | undefined;
  /** As {@link causeOf} returns it; absent without new failures. */
  readonly lastError?: string | undefined;
  /**
   * Error codes of the new failures with `delivery_failures`, else of the open ones, as far as the
   * monitor reads them. Absent in alerts that an older version has stored.
   */
  readonly causes?: Causes | undefined;
  /** When it was noticed. */
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
  /** When it was noticed. */
  readonly at: Millis;
}

/** Narrows an alert to one about the failures of a stream. */
export function isStreamAlert(alert: Alert): alert is StreamAlert {
  return 'newFailures' in alert;
}

/** Returns the sentence of an alert, in one line. */
export function alertText(alert: Alert): string {
  if (!isStreamAlert(alert)) {
    const name = alert.stream === undefined ? '' : `${harmless(alert.stream.name)}: `;
    return `${name}${alert.sentence}`;
  }
  const { lastError, stream } = alert;
  const last = lastError === undefined ? '' : `, last: ${harmless(lastError)}`;
  return `${harmless(stream.name)}: ${sentenceOf(alert)}${last}`;
}

function sentenceOf({
  kind,
  newFailures,
  total,
  consecutive,
  limits,
  percent,
  reason,
}: StreamAlert): string {
  if (kind === 'threshold_near') {
    const counts = `(${total} of ${limits.total} open, ${consecutive} of ${limits.consecutive} in a row)`;
    return `${percent}% of a limit that disables the event stream is reached ${counts}`;
  }
  const counts = `(${total} open, ${consecutive} in a row)`;
  if (kind === 'stream_disabled') {
    if (reason === 'gone') {
      return `the event stream was disabled: its receiver says that it is gone, 410 ${counts}`;
    }
    return `the event stream was disabled by its delivery failures ${counts}`;
  }
  return `${newFailures} new delivery ${newFailures === 1 ? 'failure' : 'failures'} ${counts}`;
}

const shownMax = 128;

/**
 * Returns the error of a failure without text of the receiver: the part before ` - ` or `: `, at most
 * 64 characters, as other servers may write anything there.
 */
export function causeOf(error: string): string {
  const [cause = ''] = error.split(/ - |: /, 1);
  return cause.slice(0, 64);
}

/**
 * Returns a name or an error that is safe in the text of a chat: without line breaks, invisible characters and the
 * marks that chat tools read as links or mentions. The field `stream` has the exact name.
 */
export function harmless(name: string): string {
  const shown = Array.from(name.replaceAll(/[\p{C}\p{Zl}\p{Zp}]+/gu, ' '));
  const cut = shown.length > shownMax ? [...shown.slice(0, shownMax - 1), '…'] : shown;
  const text = cut.map((character) => lookalikes[character] ?? character).join('');
  // `[text](address)` is a link in Markdown, and an address is one without marks.
  return text.replaceAll('](', '] (').replaceAll('://', ': //');
}

/** The grave accent is the mark of the next command. */
const lookalikes: Readonly<Record<string, string>> = { '<': '‹', '>': '›', '@': '＠', '`': 'ˋ' };
