-- oldest that may run: 0014

-- Ids of the keys in LEAT_SECRET_KEY, with commas between them; null for a version that does not
-- report them, and opens no seal that is bound to its place.
alter table nodes add column secret_keys text;
