-- Ranges of the log that are sent to a stream again.

create table replays (
  tenant integer not null,
  stream text collate "C" not null,
  id text collate "C" not null,
  from_offset bigint not null,                  -- the range begins after it
  position bigint not null,                     -- events up to here have a row, or were passed
  to_offset bigint not null,                    -- last of the range
  passed bigint not null,                       -- the stream's cursor when it was accepted
  event_types text,                             -- JSON; null for all
  matched bigint not null,
  sent bigint not null,
  failed bigint not null,
  status text not null check (status in ('running', 'done', 'cancelled', 'failed')),
  created_at bigint not null,
  finished_at bigint check ((finished_at is null) = (status = 'running')),
  primary key (tenant, stream, id)
) with (fillfactor = 50);

create unique index replays_running on replays (tenant, stream) where status = 'running';
create index replays_finished on replays (tenant, finished_at) where finished_at is not null;

alter table deliveries drop constraint deliveries_kind_check;
alter table deliveries add constraint deliveries_kind_check
  check (kind in ('first', 'redelivery', 'test', 'replay'));

-- However many others wait, those of a replay are found at once.
create index deliveries_replay on deliveries (tenant, stream, due_at)
  where kind = 'replay' and due_at is not null;
