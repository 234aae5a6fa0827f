-- oldest that may run: 0014

-- What became of deliveries, by stream and by tenant (stream ''). Nodes count minutes in memory and write
-- them every few seconds, each its own rows; upkeep adds them up to hours and days.
create table delivery_stats (
  tenant integer not null,
  stream text not null,
  unit text not null check (unit in ('minute', 'hour', 'day')),
  starts_at integer not null,
  writer text not null,                         -- the process that counted a minute; '' for a sum
  published integer not null,
  delivered integer not null,
  failed integer not null,
  retried integer not null,
  latency text not null,                        -- histograms, see histogram.ts
  duration text not null,
  primary key (tenant, stream, unit, starts_at, writer)
) strict, without rowid;

create index delivery_stats_age on delivery_stats (unit, starts_at);

-- How far minutes are added up to hours, and hours to days: in the unit that starts at starts_at up to this
-- stream, in all units before it completely.
create table delivery_stats_sums (
  unit text not null primary key check (unit in ('hour', 'day')),
  starts_at integer not null,
  last_tenant integer not null,
  last_stream text not null
) strict, without rowid;
