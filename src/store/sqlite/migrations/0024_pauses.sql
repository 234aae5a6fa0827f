-- oldest that may run: 0014

-- Since when a stream is paused, and why. Programs without this migration do not heed pauses, so once
-- a stream is paused, leat_schema refuses them.
alter table streams add column paused_at integer;
alter table streams add column pause_reason text;
-- The total of the pauses of a stream that ended. deliveries.cycle_at does not count them: it is the time
-- at which the cycle began less the pauses before.
alter table runs add column paused_ms integer not null default 0;

-- When a stream was disabled, and the code of its last failed attempt then; null in rows of programs
-- before this migration. disabled_reason is by_hand, consecutive_failures, open_failures or lag.
alter table streams add column disabled_since integer;
alter table streams add column disabled_code text;
-- The results of the last attempts.
alter table runs add column last_delivered_at integer;
alter table runs add column last_failed_at integer;
alter table runs add column last_error_code text;
