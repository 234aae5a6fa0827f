alter table looks rename to alert_states;
alter table key_proof rename to key_check;
alter table streams rename column lag_told to lag_reported;

-- Only in a database that another store was being copied into.
alter table if exists leat_store_move rename to leat_store_migration;
alter index if exists leat_store_move_attempts rename to leat_store_migration_attempts;
