-- Who may do what: clients, APIs, grants, and the keys that sign access tokens.

-- One row, sealed at the first start: a secret key that does not open it is the wrong one.
create table key_proof (
  id integer primary key check (id = 1),
  sealed bytea not null
);

create table signing_keys (
  number bigint primary key generated always as identity, -- rises with each key: two of one instant have an order
  tenant integer not null,
  kid text collate "C" not null,
  private_jwk bytea not null,                    -- sealed JSON
  created_at bigint not null,
  signs_from bigint not null,
  expires_at bigint,
  unique (tenant, kid)
);

create table clients (
  tenant integer not null,
  id text collate "C" not null,
  name text collate "C" not null,
  global boolean not null,
  issuer text collate "C",
  secret_hash text,
  jwks text,
  version integer not null,
  created_at bigint not null,
  primary key (tenant, id)
);

create index clients_created on clients (tenant, created_at, id);

-- Which assertions of private_key_jwt were used, until they expire.
create table assertions (
  tenant integer not null,
  client text collate "C" not null,
  jti text collate "C" not null,
  expires_at bigint not null,
  primary key (tenant, client, jti)
);

create index assertions_expires on assertions (tenant, expires_at);

create table apis (
  tenant integer not null,
  id text collate "C" not null,
  identifier text collate "C" not null,
  name text collate "C" not null,
  scopes text not null,                         -- [{"value": "...", "description": "..."}, ...]
  enforce_policies boolean not null,
  token_dialect text collate "C" not null check (token_dialect in ('access_token', 'access_token_authz')),
  token_lifetime_seconds integer not null,
  created_at bigint not null,
  primary key (tenant, id),
  unique (tenant, identifier)
);

create index apis_created on apis (tenant, created_at, id);

create table grants (
  tenant integer not null,
  id text collate "C" not null,
  client text collate "C" not null,
  api text collate "C" not null,                            -- 'management' has no row in apis
  scope text not null,                          -- ["...", ...]
  primary key (tenant, id),
  unique (tenant, client, api)
);

create index grants_api on grants (tenant, api);

-- The users of the database connections. A username is unique per connection like an e-mail; users
-- without one do not clash, because null equals nothing.

create table users (
  tenant integer not null,
  id text collate "C" not null,
  connection text collate "C" not null,
  email text collate "C" not null,                          -- lower case
  username text collate "C",
  password_hash text not null,
  profile text not null,                        -- JSON object
  created_at bigint not null,
  updated_at bigint not null,
  primary key (tenant, id),
  unique (tenant, connection, email),
  unique (tenant, connection, username)
);

create index users_email on users (tenant, email);
create index users_created on users (tenant, created_at, id);

-- Roles group permissions; clients and users hold them.

create table roles (
  tenant integer not null,
  id text collate "C" not null,
  name text collate "C" not null,
  description text not null,
  created_at bigint not null,
  primary key (tenant, id),
  unique (tenant, name)
);

create index roles_created on roles (tenant, created_at, id);

create table role_permissions (
  tenant integer not null,
  role text collate "C" not null,
  api text collate "C" not null,                            -- 'management' has no row in apis
  name text collate "C" not null,
  primary key (tenant, role, api, name)
);

create index role_permissions_api on role_permissions (tenant, api);

create table role_clients (
  tenant integer not null,
  role text collate "C" not null,
  client text collate "C" not null,
  primary key (tenant, role, client)
);

create index role_clients_client on role_clients (tenant, client);

create table role_users (
  tenant integer not null,
  role text collate "C" not null,
  "user" text collate "C" not null,
  primary key (tenant, role, "user")
);

create index role_users_user on role_users (tenant, "user");
