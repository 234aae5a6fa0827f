-- Who may do what: clients, APIs, grants, and the keys that sign access tokens.

-- One row, sealed at the first start: a secret key that does not open it is the wrong one.
create table key_proof (
  id integer primary key check (id = 1),
  sealed blob not null
) strict;

create table signing_keys (
  number integer primary key autoincrement,     -- rises with each key: two of one instant have an order
  tenant integer not null,
  kid text not null,
  private_jwk blob not null,                    -- sealed JSON
  created_at integer not null,
  signs_from integer not null,
  expires_at integer,
  unique (tenant, kid)
) strict;

create table clients (
  tenant integer not null,
  id text not null,
  name text not null,
  global integer not null check (global in (0, 1)),
  issuer text,
  secret_hash text,
  jwks text,
  version integer not null,
  created_at integer not null,
  primary key (tenant, id)
) strict, without rowid;

create index clients_created on clients (tenant, created_at, id);

-- Which assertions of private_key_jwt were used, until they expire.
create table assertions (
  tenant integer not null,
  client text not null,
  jti text not null,
  expires_at integer not null,
  primary key (tenant, client, jti)
) strict, without rowid;

create index assertions_expires on assertions (tenant, expires_at);

create table apis (
  tenant integer not null,
  id text not null,
  identifier text not null,
  name text not null,
  scopes text not null,                         -- [{"value": "...", "description": "..."}, ...]
  enforce_policies integer not null check (enforce_policies in (0, 1)),
  token_dialect text not null check (token_dialect in ('access_token', 'access_token_authz')),
  token_lifetime_seconds integer not null,
  created_at integer not null,
  primary key (tenant, id),
  unique (tenant, identifier)
) strict, without rowid;

create index apis_created on apis (tenant, created_at, id);

create table grants (
  tenant integer not null,
  id text not null,
  client text not null,
  api text not null,                            -- 'management' has no row in apis
  scope text not null,                          -- ["...", ...]
  primary key (tenant, id),
  unique (tenant, client, api)
) strict, without rowid;

create index grants_api on grants (tenant, api);
