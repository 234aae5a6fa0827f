-- oldest that may run: 0014

-- What became of an event: which selection a stream had then, where the stream began, and whether its
-- failure was dismissed.

-- Selections of streams that apply to no event after the cursor, while the log has events to which they
-- applied. streams.subscriptions has the others.
create table past_selections (
  tenant integer not null,
  stream text collate "C" not null,
  after_offset bigint not null,                 -- it applied to the events after this one
  to_offset bigint not null,                    -- up to this one
  types text not null,                          -- JSON
  filter text,                                  -- JSON; null without one
  primary key (tenant, stream, after_offset)
);

create index past_selections_to on past_selections (tenant, to_offset, after_offset);

-- The cursor with which the stream was created: events up to it were not meant for it. Null in rows of
-- programs before this migration.
alter table runs add column first_offset bigint;

-- Events of the log of which a failure was dismissed. The history says so as well, but may be removed
-- before the event.
create table dismissed_events (
  tenant integer not null,
  "offset" bigint not null,
  stream text collate "C" not null,
  primary key (tenant, "offset", stream)
);

-- Skipped ranges are now removed with the last of their events.
drop index skipped_ranges_at;
create index skipped_ranges_to on skipped_ranges (tenant, to_offset);
