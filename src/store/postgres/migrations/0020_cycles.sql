-- oldest that may run: 0014

-- When the first attempt of the cycle of a delivery was recorded; null in rows of programs before this
-- migration.
alter table deliveries add column cycle_at bigint;
