-- When the lag of the stream was reported last, or the stream was disabled for it.
alter table streams add column lag_at integer not null default 0;
