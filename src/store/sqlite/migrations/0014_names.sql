alter table looks rename to alert_states;
alter table key_proof rename to key_check;
alter table streams rename column lag_told to lag_reported;
