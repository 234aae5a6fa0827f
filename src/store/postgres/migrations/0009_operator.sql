-- Tenants that are being deleted: their row has left tenants, their data follows step by step.

create table leaving_tenants (
  id integer primary key,                       -- of the row that left tenants
  name text collate "C" not null unique,
  domain text collate "C" not null,
  begun_at timestamptz not null default clock_timestamp()
);
