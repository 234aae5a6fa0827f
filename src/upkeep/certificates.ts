import type { RaisedAlert, SystemAlerts } from '../alerting/system-alerts.ts';
import { certificateWarningMs } from '../core/client-certificate.ts';
import { formatTime } from '../core/date.ts';
import { dayMs } from '../core/units.ts';
import type { Store } from '../store/port/store.ts';
import type { CertificateReport, ExpiringCertificate } from '../store/port/upkeep.ts';
import { drain } from './drain.ts';

export interface CertificateDeps {
  readonly store: {
    readonly upkeep: Pick<Store['upkeep'], 'expiringCertificates' | 'noteCertificate'>;
  };
  readonly alerts: Pick<SystemAlerts, 'raise'>;
}

/** Certificates of one step; a step reads little of each. */
const take = 1000;

/**
 * Returns a step of upkeep that reports the client certificates which expire soon or have expired. As
 * with lag, a report is recorded only after its alert is in the store, and raised again until then: a
 * crash repeats it and loses none.
 */
export function watchCertificates({ store, alerts }: CertificateDeps): () => Promise<number> {
  const stored: Report[] = [];
  return async () => {
    await drain(stored, ({ certificate, reported }) =>
      store.upkeep.noteCertificate(certificate, reported),
    );
    const found = await store.upkeep.expiringCertificates({ withinMs: certificateWarningMs, take });
    for (const certificate of found) {
      const reported = certificate.leftMs > 0 ? 'near' : 'expired';
      const report = { certificate, reported } as const;
      alerts.raise(alertOf(report), () => stored.push(report));
    }
    // The same certificates are read until their reports are recorded: one step per round is enough.
    return 0;
  };
}

interface Report {
  readonly certificate: ExpiringCertificate;
  readonly reported: CertificateReport;
}

function alertOf({ certificate, reported }: Report): RaisedAlert {
  const { tenant, stream: id, name, expiresAt, leftMs } = certificate;
  const expiry = formatTime(expiresAt);
  const subject = {
    tenant,
    stream: { id, name },
    key: `certificate ${id} ${expiresAt} ${reported}`,
  };
  if (reported === 'expired') {
    return {
      ...subject,
      kind: 'certificate_expired',
      sentence: `its client certificate expired at ${expiry}, so all attempts fail: ${remedy}`,
      fields: { expires_at: expiry },
    };
  }
  const daysLeft = Math.round(leftMs / dayMs);
  return {
    ...subject,
    kind: 'certificate_near',
    sentence: `its client certificate expires at ${expiry}, ${inDays(daysLeft)}: ${remedy}`,
    fields: { expires_at: expiry, days_left: daysLeft },
  };
}

const remedy = 'replace it with leat streams update, --certificate-file and --certificate-key-file';

function inDays(days: number): string {
  if (days === 0) return 'in less than a day';
  return days === 1 ? 'in 1 day' : `in ${days} days`;
}
