-- oldest that may run: 0014

-- What a dismissal closed, to open it again: the request, and the row of the failure. Null for those of before
-- and of programs without this migration, which are not opened again.
alter table dismissed_events
  add column dismissal text collate "C",
  add column event_id text collate "C",
  add column type text collate "C",
  add column time bigint,
  add column kind text,
  add column attempt integer,
  add column failed_at bigint,
  add column error_code text;

create index dismissed_events_dismissal on dismissed_events (tenant, dismissal, stream, "offset")
  where dismissal is not null;

-- Set while failures are opened again: no stream gets as many open ones.
alter table dismissals add column reopen_below integer;
alter table dismissal_streams add column reopened integer not null default 0;
