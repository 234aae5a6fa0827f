-- oldest that may run: 0014

-- Counts the deliveries of a tenant that wait for an attempt.
create index deliveries_waiting on deliveries (tenant, state) where due_at is not null;

-- Finds those above the cursor of a stream, which may have thousands of failures below it.
create index deliveries_offset on deliveries (tenant, stream, "offset");
