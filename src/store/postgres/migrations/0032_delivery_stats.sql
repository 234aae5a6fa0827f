-- oldest that may run: 0014

-- What became of deliveries, by stream and by tenant (stream ''). Nodes count minutes in memory and write
-- them every few seconds, each its own rows; upkeep adds them up to hours and days.
create table delivery_stats (
  tenant integer not null,
  stream text collate "C" not null,
  unit text collate "C" not null check (unit in ('minute', 'hour', 'day')),
  starts_at bigint not null,
  writer text collate "C" not null,             -- the process that counted a minute; '' for a sum
  published bigint not null,
  delivered bigint not null,
  failed bigint not null,
  retried bigint not null,
  latency text not null,                        -- histograms, see histogram.ts
  duration text not null,
  primary key (tenant, stream, unit, starts_at, writer)
) with (fillfactor = 70);

create index delivery_stats_age on delivery_stats (unit, starts_at);

-- How far minutes are added up to hours, and hours to days: in the unit that starts at starts_at up to this
-- stream, in all units before it completely.
create table delivery_stats_sums (
  unit text collate "C" primary key check (unit in ('hour', 'day')),
  starts_at bigint not null,
  last_tenant integer not null,
  last_stream text collate "C" not null
);
