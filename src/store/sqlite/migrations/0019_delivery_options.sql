-- oldest that may run: 0014

-- How events are delivered to a stream: a JSON object, null where nothing is set. Programs without this
-- migration ignore it, so once a stream has it, leat_schema refuses them.
alter table streams add column delivery text;
