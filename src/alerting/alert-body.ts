import { formatTime } from '../core/date.ts';
import type { DisabledReason } from '../store/port/streams.ts';
import {
  type Alert,
  alertText,
  harmless,
  isStreamAlert,
  type StreamAlert,
  type StreamAlertKind,
  type SystemAlert,
  type SystemAlertKind,
} from './alert.ts';
import { type CauseBody, type Guidance, guidanceOf } from './guidance.ts';

/** An alert as JSON; docs/monitoring.md describes both forms. */
export type AlertBody = StreamAlertBody | SystemAlertBody;

/** Further fields depend on the kind. */
export interface SystemAlertBody extends Guidance {
  readonly text: string;
  readonly alert: SystemAlertKind;
  readonly tenant: string;
  readonly stream?: { readonly id: string; readonly name: string };
  readonly time: string;
}

/** The fields of docs/monitoring.md#alerts. */
export interface StreamAlertBody extends Guidance {
  readonly text: string;
  readonly alert: StreamAlertKind;
  readonly tenant: string;
  readonly stream: { readonly id: string; readonly name: string };
  readonly new_failures: number;
  readonly total_failures: number;
  readonly consecutive_failures: number;
  readonly reason?: DisabledReason;
  readonly percent?: number;
  readonly last_error?: string;
  readonly time: string;
}

/** Returns the JSON of an alert; `url` is the public URL of its tenant, with its slash. */
export function alertBody(alert: StreamAlert, url: string): StreamAlertBody;
export function alertBody(alert: Alert, url: string): AlertBody;
export function alertBody(alert: Alert, url: string): AlertBody {
  const guidance = guidanceOf(alert, url);
  return isStreamAlert(alert) ? streamBody(alert, guidance) : systemBody(alert, guidance);
}

/** Returns an alert as text that chat tools can show alone: its sentence, then its guidance. */
export function chatText(alert: Alert, url: string): string {
  const { cause, link, next_command: command } = guidanceOf(alert, url);
  return [alertText(alert), causeText(cause), `Next: \`${command}\``, link].join('\n');
}

/** Returns the counts of a cause and what it means, in one line. */
export function causeText({ meaning, codes, other_failures: others = 0 }: CauseBody): string {
  const counts = codes.map(({ code, count, sample }) => {
    return sample === undefined ? `${count} ${code}` : `${count} ${code} (${harmless(sample)})`;
  });
  if (others > 0) counts.push(`${others} with other causes`);
  return counts.length === 0 ? meaning : `${counts.join(', ')}. ${meaning}`;
}

function systemBody(alert: SystemAlert, guidance: Guidance): SystemAlertBody {
  const { kind, tenant, stream, fields, at } = alert;
  return {
    text: alertText(alert),
    alert: kind,
    tenant,
    ...(stream === undefined ? {} : { stream: { id: stream.id, name: stream.name } }),
    ...fields,
    ...guidance,
    time: formatTime(at),
  };
}

function streamBody(alert: StreamAlert, guidance: Guidance): StreamAlertBody {
  const { consecutive, reason, percent, lastError } = alert;
  return {
    text: alertText(alert),
    alert: alert.kind,
    tenant: alert.tenant,
    stream: { id: alert.stream.id, name: alert.stream.name },
    new_failures: alert.newFailures,
    total_failures: alert.total,
    consecutive_failures: consecutive,
    ...(reason === undefined ? {} : { reason }),
    ...(percent === undefined ? {} : { percent }),
    ...(lastError === undefined ? {} : { last_error: lastError }),
    ...guidance,
    time: formatTime(alert.at),
  };
}
