-- oldest that may run: 0014

-- The list of streams, and whether the one in memory is still right, without their sealed columns.
create index streams_listed on streams (tenant, id, version, name, status, paused_at);
