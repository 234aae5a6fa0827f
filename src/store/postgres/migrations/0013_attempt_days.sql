-- On which days the history of an open delivery is. Attempts have the day of the clock when they were
-- made; events keep that of the newest one before them. So where the clock was ahead and was set back,
-- attempts may be of earlier days than their event, and the last ones of earlier days than the first.

-- It says nothing about the history.
alter table deliveries rename column first_day to event_day;

-- The first and the last day of its entries, widened as these are written. The defaults are for
-- deliveries that may have any: those from before, those of a replay, those that came from SQLite.
alter table deliveries add column attempts_from integer not null default 0;
alter table deliveries add column attempts_to integer not null default 2147483647;
