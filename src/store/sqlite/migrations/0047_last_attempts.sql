-- oldest that may run: 0014

-- When an attempt of a failure failed last with this code, and the event of it; null where it is not known, as
-- after attempts of programs of before.
alter table failure_groups add column last_attempt_at integer;
alter table failure_groups add column last_event text;
