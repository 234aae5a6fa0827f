-- oldest that may run: 0014

-- The offsets of the events of a replay of chosen events, as JSON; null for a range. Programs without this
-- migration would send the whole range, so once there is such a replay, leat_schema refuses them.
alter table replays add column offsets text;
