-- oldest that may run: 0014

-- The results of requests that dismissed open failures. Programs without this migration cannot read the
-- entries of dismissals in the history (attempts.outcome is 4), so once a failure is dismissed, leat_schema
-- refuses them.
create table dismissals (
  tenant integer not null,
  id text not null,
  dismissed integer not null,
  skipped integer not null,                     -- matching failures that stayed open
  created_at integer not null,
  created_by text not null,                     -- id of the client
  primary key (tenant, id)
) strict, without rowid;

create index dismissals_created on dismissals (created_at);
