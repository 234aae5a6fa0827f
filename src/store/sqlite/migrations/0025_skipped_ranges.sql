-- oldest that may run: 0014

-- Ranges of the log that streams passed over when they were enabled again.
create table skipped_ranges (
  tenant integer not null,
  stream text not null,
  from_offset integer not null,                 -- the range begins after it
  to_offset integer not null,                   -- last of the range
  events integer,                               -- that the stream wanted; null: not counted
  at_least integer not null default 0,          -- 1: there may be more
  skipped_at integer not null,
  primary key (tenant, stream, from_offset)
) strict, without rowid;

create index skipped_ranges_at on skipped_ranges (skipped_at);
