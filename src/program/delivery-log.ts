import { causeOf } from '../alerting/alert.ts';
import type { Log } from '../core/log.ts';
import type { ShortageChange } from '../delivery/http/shortages.ts';
import type { DeliveryReport } from '../delivery/report.ts';
import { failureMessage } from './log-text.ts';

/**
 * Logs a report of the dispatcher; attempts only at level debug unless they fail a delivery.
 * Neither event data nor the receiver's text is logged: of an error only the part before ` - ` or
 * `: ` (docs/http-api.md#redaction).
 */
export function logReport(log: Log, report: DeliveryReport): void {
  switch (report.kind) {
    case 'attempt': {
      // Nearly all entries are of this level: none is built in vain.
      if (report.result !== 'failed' && log.isLevelEnabled?.('debug') === false) return;
      const { kind, error, ...fields } = report;
      const entry = { ...fields, error: error === undefined ? undefined : causeOf(error) };
      if (report.result === 'failed') log.warn(entry, failureMessage);
      else log.debug(entry, kind);
      return;
    }
    case 'stream_disabled': {
      const { tenant, stream, reason, health } = report;
      log.error({ tenant, stream, reason, ...health }, 'event stream disabled');
      return;
    }
    case 'receiver_down': {
      const { tenant, stream } = report;
      log.warn({ tenant, stream }, 'the receiver of an event stream is down; fresh events wait');
      return;
    }
    case 'receiver_up': {
      const { tenant, stream } = report;
      log.info({ tenant, stream }, 'the receiver of an event stream takes events again');
      return;
    }
    case 'store_unavailable':
      log.error({ err: report.error }, 'the store is unavailable; deliveries wait');
      return;
    case 'store_recovered':
      log.info({}, 'the store is available again');
      return;
    case 'shortage':
      logShortage(log, report);
      return;
    case 'store_replaced': {
      const lost = report.heads.filter(({ before, now }) => now < before);
      const text = 'the store failed over or was restored; this node has joined it again';
      if (lost.length === 0) log.warn({}, text);
      for (const fields of lost) log.error(fields, `${text}, and a log ends earlier than before`);
      return;
    }
    case 'settle_culprit': {
      const { tenant, stream, eventId, error } = report;
      const fields = { tenant, stream, eventId, err: error };
      log.error(fields, 'the store refused a result; it was recorded without its text');
      return;
    }
    case 'settle_stuck': {
      const { tenant, stream, eventId, error } = report;
      const text = 'the store refused a result; its event stream is tried again after a while';
      log.error({ tenant, stream, eventId, err: error }, text);
      return;
    }
    case 'unexpected':
      log.error({ err: report.error }, 'unexpected error in delivery');
      return;
    case 'settled':
      log.debug({ outcomes: report.outcomes }, report.kind);
      return;
    case 'stream_owned':
    case 'stream_lost': {
      const { kind, ...fields } = report;
      log.debug(fields, kind);
    }
  }
}

function logShortage(log: Log, { resource, code, isOver }: ShortageChange): void {
  if (isOver) return log.info({ resource }, 'this node is not short of it any more');
  const text =
    'this node is short of something that deliveries need; they wait, and no receiver is blamed';
  log.error({ resource, code }, text);
}
