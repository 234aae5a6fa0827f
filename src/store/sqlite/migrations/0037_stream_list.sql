-- oldest that may run: 0014

-- Has the versions as well, which tell whether the list in memory is still right.
drop index streams_listed;
create index streams_listed on streams (tenant, id, version, name, status, paused_at);
