-- Roles group permissions; clients and users hold them.

create table roles (
  tenant integer not null,
  id text not null,
  name text not null,
  description text not null,
  created_at integer not null,
  primary key (tenant, id),
  unique (tenant, name)
) strict, without rowid;

create index roles_created on roles (tenant, created_at, id);

create table role_permissions (
  tenant integer not null,
  role text not null,
  api text not null,                            -- 'management' has no row in apis
  name text not null,
  primary key (tenant, role, api, name)
) strict, without rowid;

create index role_permissions_api on role_permissions (tenant, api);

create table role_clients (
  tenant integer not null,
  role text not null,
  client text not null,
  primary key (tenant, role, client)
) strict, without rowid;

create index role_clients_client on role_clients (tenant, client);

create table role_users (
  tenant integer not null,
  role text not null,
  user text not null,
  primary key (tenant, role, user)
) strict, without rowid;

create index role_users_user on role_users (tenant, user);
