-- oldest that may run: 0014

-- A keyed hash of type and data of an event whose id its publisher chose (rules/content.ts); null for others,
-- and for those that were published before. The key differs from tenant to tenant.
alter table tenants add column content_key blob;
update tenants set content_key = randomblob(16);
create trigger tenants_content_key after insert on tenants when new.content_key is null begin
  update tenants set content_key = randomblob(16) where id = new.id;
end;
alter table events add column content blob;
