-- oldest that may run: 0014

-- Requests about many failures are accepted with their total, and worked on in steps of some hundred
-- failures.

-- Where the work is within the stream after `position`: the last failure that a step has read.
alter table redeliveries add column after_at integer not null default 0;
alter table redeliveries add column after_event text not null default '';
-- 1 if some streams had too many failures to count them at the acceptance.
alter table redeliveries add column at_least integer not null default 0;

-- Failures that were counted at the acceptance and that no step has found yet.
alter table redelivery_streams add column unread integer not null default 0;
create index redelivery_streams_stream on redelivery_streams (tenant, stream);

-- Dismissals have the same columns. In rows of before, dismissed and skipped are the result; in others they
-- are 0 and dismissal_streams has it.
alter table dismissals add column selection text not null default '{}';
alter table dismissals add column work text not null default 'none'
  check (work in ('taking', 'none'));
alter table dismissals add column position text not null default '';
alter table dismissals add column after_at integer not null default 0;
alter table dismissals add column after_event text not null default '';
alter table dismissals add column at_least integer not null default 0;

create index dismissals_work on dismissals (tenant, id) where work <> 'none';

create table dismissal_streams (
  tenant integer not null,
  id text not null,
  stream text not null,
  total integer not null,
  dismissed integer not null default 0,
  skipped integer not null default 0,
  unread integer not null,
  primary key (tenant, id, stream)
) strict, without rowid;

create index dismissal_streams_stream on dismissal_streams (tenant, stream);
