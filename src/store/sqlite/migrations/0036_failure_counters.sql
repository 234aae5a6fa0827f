-- oldest that may run: 0014

-- The same counters without `do update`: after that, SQLite copies each page that a statement on
-- deliveries changes, so that it could undo a part of the statement.
drop trigger failure_added;
create trigger failure_added after insert on deliveries when new.failed_at is not null begin
  insert into failure_groups (tenant, stream, error_code, count)
  values (new.tenant, new.stream, new.error_code, 0)
  on conflict do nothing;
  update failure_groups set count = count + 1
  where tenant = new.tenant and stream = new.stream and error_code = new.error_code;
end;

drop trigger failure_opened;
create trigger failure_opened after update of failed_at, error_code on deliveries
when new.failed_at is not null and (old.failed_at is null or old.error_code <> new.error_code) begin
  insert into failure_groups (tenant, stream, error_code, count)
  values (new.tenant, new.stream, new.error_code, 0)
  on conflict do nothing;
  update failure_groups set count = count + 1
  where tenant = new.tenant and stream = new.stream and error_code = new.error_code;
end;
