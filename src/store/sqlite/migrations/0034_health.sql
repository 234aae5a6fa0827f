-- oldest that may run: 0014

-- Counts the deliveries of a tenant that wait for an attempt.
create index deliveries_waiting on deliveries (tenant, state) where due_at is not null;

-- Names and states of streams without their sealed columns, which are most of a row.
create index streams_listed on streams (tenant, id, name, status, paused_at);
