-- Tenants that are being deleted: their row has left tenants, their data follows step by step.

create table leaving_tenants (
  id integer primary key,                       -- of the row that left tenants
  name text not null unique,
  domain text not null
) strict;

-- Keys of their streams, by which the history is found.
create table leaving_runs (
  key integer primary key,
  tenant integer not null
) strict;

create index leaving_runs_tenant on leaving_runs (tenant);
