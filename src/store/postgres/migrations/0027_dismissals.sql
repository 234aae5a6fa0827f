-- oldest that may run: 0014

-- The results of requests that dismissed open failures. Programs without this migration cannot read the
-- entries of dismissals in the history (attempts.outcome is 4), so once a failure is dismissed, leat_schema
-- refuses them.
create table dismissals (
  tenant integer not null,
  id text collate "C" not null,
  dismissed bigint not null,
  skipped bigint not null,                     -- matching failures that stayed open
  created_at bigint not null,
  created_by text collate "C" not null,                     -- id of the client
  primary key (tenant, id)
);

create index dismissals_created on dismissals (created_at);
