-- oldest that may run: 0014
-- The keys that sign webhooks, Ed25519.

create table webhook_keys (
  number integer primary key autoincrement,     -- rises with each key: two of one instant have an order
  tenant integer not null,
  kid text not null,
  private_jwk blob not null,                    -- sealed JSON
  created_at integer not null,
  signs_from integer not null,
  expires_at integer,
  unique (tenant, kid)
) strict;
