-- oldest that may run: 0014

-- `failing_since` is when the oldest attempt began that failed since the last success, at the earliest that
-- success: an attempt that hangs is as old as it is, not as its timeout is.
create or replace function leat_write_changed_runs(
  the_tenants integer[], the_streams text[], the_cursors bigint[], the_runs integer[],
  the_consecutive integer[], the_totals integer[], the_paused_ms bigint[],
  the_delivered_at bigint[], the_failed_at bigint[], the_error_codes text[],
  the_failing_ends boolean[], the_failing_from bigint[]
) returns void language plpgsql as $$
begin
  update runs set cursor = u.cursor, run = u.run, consecutive_failures = u.consecutive,
    total_failures = u.total, paused_ms = u.paused_ms,
    last_delivered_at = coalesce(u.delivered_at, last_delivered_at),
    last_failed_at = coalesce(u.failed_at, last_failed_at),
    last_error_code = coalesce(u.error_code, last_error_code),
    failing_since = least(case when u.failing_ends then null else failing_since end,
      case when u.failing_from is not null
        then greatest(u.failing_from, u.delivered_at, last_delivered_at) end)
  from unnest(the_tenants, the_streams, the_cursors, the_runs, the_consecutive, the_totals,
      the_paused_ms, the_delivered_at, the_failed_at, the_error_codes, the_failing_ends,
      the_failing_from)
    as u(tenant, stream, cursor, run, consecutive, total, paused_ms, delivered_at, failed_at,
      error_code, failing_ends, failing_from)
  where runs.tenant = u.tenant and runs.stream = u.stream;
end $$;
