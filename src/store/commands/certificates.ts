import type { CertificateReport, ExpiringCertificate, UpkeepStore } from '../port/upkeep.ts';
import { type Command, sql, type On } from './command.ts';

/** Creates the commands that watch client certificates. */
export function createCertificateStore({
  on,
}: On): Pick<UpkeepStore, 'expiringCertificates' | 'noteCertificate'> {
  return {
    expiringCertificates: (query) => on.commands.read(expiring(query)),
    noteCertificate: async (certificate, reported) => {
      await on.commands.transact('relaxed', () => note(certificate, reported));
    },
  };
}

function* expiring({
  withinMs,
  take,
}: Parameters<UpkeepStore['expiringCertificates']>[0]): Command<readonly ExpiringCertificate[]> {
  const rows = yield* sql.all<ExpiringCertificate>`
    select tenant, id as stream, name, certificate_expires_at as "expiresAt",
      certificate_expires_at - leat_now() as "leftMs"
    from streams
    where certificate_expires_at <= leat_now() + ${withinMs}
      and (certificate_reported is null
        or certificate_reported = 'near' and certificate_expires_at <= leat_now())
    order by certificate_expires_at, tenant, id limit ${take}`;
  return rows.map((row) => ({ ...row }));
}

/** A certificate that was reported as expired stays so, even if the clock is set back. */
function* note(
  { tenant, stream, expiresAt }: ExpiringCertificate,
  reported: CertificateReport,
): Command<number> {
  return yield* sql.run`
    update streams set certificate_reported = ${reported}
    where tenant = ${tenant} and id = ${stream} and certificate_expires_at = ${expiresAt}
      and (certificate_reported is null or certificate_reported = 'near')`;
}
