-- oldest that may run: 0014
-- The keys that sign webhooks, Ed25519.

create table webhook_keys (
  number bigint primary key generated always as identity, -- rises with each key: two of one instant have an order
  tenant integer not null,
  kid text collate "C" not null,
  private_jwk bytea not null,                    -- sealed JSON
  created_at bigint not null,
  signs_from bigint not null,
  expires_at bigint,
  unique (tenant, kid)
);
