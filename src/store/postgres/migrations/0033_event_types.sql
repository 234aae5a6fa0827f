-- oldest that may run: 0014

-- The types of the events in the log, with the newest event of each. Nodes remember types in memory and write
-- them every few seconds: an index on the type would cost each publish.
create table event_types (
  tenant integer not null,
  type text collate "C" not null,
  last_offset bigint not null,
  last_seen_at bigint not null,
  primary key (tenant, type)
);
