-- Where a publisher stands in a trace, and what operators were told.

alter table events add column trace text;       -- W3C traceparent of the request that published it

alter table deliveries add column trace text;   -- only while the log does not have the event

-- When a limit disabled the stream last; it stays when somebody enables it, so that a look still sees it.
alter table streams add column disabled_at integer;

create table looks (
  tenant integer primary key,
  at integer not null,                          -- of the last look at the failures
  state text not null                           -- what the next look has to know
) strict;
