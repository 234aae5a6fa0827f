-- oldest that may run: 0014
-- What happened to a tenant: changes, refusals, tokens. Entries of changes are written with the change.

create table audit_log (
  tenant integer not null,
  id text not null,
  at integer not null,
  type text not null,
  description text not null,
  client text,
  client_name text,                             -- at that time
  ip text,
  user_agent text,
  details text not null,                        -- JSON
  count integer not null,                       -- equal ones since then, this one included
  primary key (tenant, id)
) strict, without rowid;

-- The newest of one type, and of one type and client; and the oldest of all, which expire first.
create index audit_log_type on audit_log (tenant, type, at, id);
create index audit_log_client on audit_log (tenant, client, type, at, id);
create index audit_log_at on audit_log (at, tenant, id);

-- Ids of what the entries are about.
create table audit_targets (
  tenant integer not null,
  id text not null,
  target text not null,
  type text not null,
  client text,
  at integer not null,
  primary key (tenant, id, target)
) strict, without rowid;

create index audit_targets_target on audit_targets (tenant, target, type, at, id);
create index audit_targets_client on audit_targets (tenant, target, client, type, at, id);

-- The scope of the log comes to the grants of the management API that have all scopes of before.
update grants set scope = substr(scope, 1, length(scope) - 1) || ',"read:logs"]'
where api = 'management' and scope not like '%"read:logs"%' and not exists (
  select 1 from (values
    ('create:event_streams'), ('read:event_streams'), ('update:event_streams'),
    ('delete:event_streams'), ('read:event_deliveries'), ('update:event_deliveries'),
    ('create:events'), ('read:events'), ('create:users'),
    ('read:users'), ('update:users'), ('delete:users'),
    ('read:actions'), ('create:clients'), ('read:clients'),
    ('update:clients'), ('delete:clients'), ('create:resource_servers'),
    ('read:resource_servers'), ('update:resource_servers'), ('delete:resource_servers'),
    ('create:client_grants'), ('read:client_grants'), ('update:client_grants'),
    ('delete:client_grants'), ('create:roles'), ('read:roles'),
    ('update:roles'), ('delete:roles'), ('create:role_members'),
    ('read:role_members'), ('delete:role_members')
  ) as former
  where former.column1 not in (select value from json_each(scope)));
