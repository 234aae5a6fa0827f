import type { Millis } from './clock.ts';
import { formatTime } from './date.ts';
import type { HealthLimits } from './types.ts';

export type AlertKind = 'delivery_failures' | 'stream_disabled' | 'threshold_near';

/** What somebody has to know of a stream (contract section 17): no secret and no event data. */
export interface Alert {
  readonly kind: AlertKind;
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

/** The members of contract section 17. */
export interface AlertBody {
  readonly text: string;
  readonly alert: AlertKind;
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
export function alertBody(alert: Alert): AlertBody {
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
  const { lastError, stream } = alert;
  const last = lastError === undefined ? '' : `, last: ${harmless(lastError)}`;
  return `${harmless(stream.name)}: ${said(alert)}${last}`;
}

function said({ kind, newFailures, total, consecutive, limits, percent }: Alert): string {
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
