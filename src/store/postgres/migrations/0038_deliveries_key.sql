-- oldest that may run: 0014

-- The key of deliveries begins with the event, so that it also serves what searches by event, and a failure
-- has one index less.
alter table deliveries drop constraint deliveries_pkey, add primary key (tenant, event_id, stream);
drop index deliveries_event;
