-- oldest that may run: 0014

-- Ranges of the log that streams passed over when they were enabled again.
create table skipped_ranges (
  tenant integer not null,
  stream text collate "C" not null,
  from_offset bigint not null,                  -- the range begins after it
  to_offset bigint not null,                    -- last of the range
  events bigint,                                -- that the stream wanted; null: not counted
  at_least integer not null default 0,          -- 1: there may be more
  skipped_at bigint not null,
  primary key (tenant, stream, from_offset)
);

create index skipped_ranges_at on skipped_ranges (skipped_at);
