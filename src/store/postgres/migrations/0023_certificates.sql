-- oldest that may run: 0014

-- When the client certificate of a stream expires, outside of the sealed destination; null without one.
-- Programs without this migration would leave it as it is, so once a stream has a certificate, leat_schema
-- refuses them.
alter table streams add column certificate_expires_at bigint;
-- The alert about this certificate that is in the store: 'near', 'expired', or null for none.
alter table streams add column certificate_reported text;
create index streams_certificates on streams (certificate_expires_at)
  where certificate_expires_at is not null;
