-- oldest that may run: 0014

-- Whether the newest selection of a stream has a filter: the filters of a tenant are counted. Programs
-- without this migration do not heed filters, so once a stream has one, leat_schema refuses them.
alter table streams add column filtered integer not null default 0;
create index streams_filtered on streams (tenant) where filtered = 1;
