-- oldest that may run: 0014

-- When the oldest attempt failed since the last success of a stream; null without one. Programs of before
-- recorded the newest one only.
alter table runs add column failing_since integer;
update runs set failing_since = last_failed_at where last_failed_at > coalesce(last_delivered_at, 0);
