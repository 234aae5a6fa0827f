-- oldest that may run: 0014

-- Order by key. The hash of the key of an ordered event; an event that waits behind its key is blocked.
alter table deliveries add column order_key text collate "C";
alter table deliveries drop constraint deliveries_state_check;
alter table deliveries add constraint deliveries_state_check
  check (state in ('parked', 'retrying', 'failed', 'blocked'));
alter table deliveries drop constraint deliveries_check;
alter table deliveries add constraint deliveries_due_check
  check ((due_at is null) = (state in ('failed', 'blocked')));
create index deliveries_order on deliveries (tenant, stream, order_key, state, "offset")
  where order_key is not null;

-- Of streams that send in order: the settled events above the cursor, as JSON.
alter table runs add column settled_above text;
