-- Times are integer milliseconds since the epoch. Every key but those of the history begins with the tenant.

-- Tenants

create table tenants (
  id integer primary key autoincrement,
  name text not null unique,
  domain text not null unique,
  head integer not null default 0,              -- last offset given out
  last_published_at integer not null default 0, -- published_at of that event
  created_at integer not null,
  -- Of the hashes in events.content. It differs from tenant to tenant.
  content_key blob
) strict;

create trigger tenants_content_key after insert on tenants when new.content_key is null begin
  update tenants set content_key = randomblob(16) where id = new.id;
end;

-- Tenants that are being deleted: their row has left tenants, their data follows step by step.
create table leaving_tenants (
  id integer primary key,                       -- of the row that left tenants
  name text not null unique,
  domain text not null
) strict;

-- Keys of their streams, by which the history is found.
create table leaving_runs (
  key integer primary key,
  tenant integer not null
) strict;

create index leaving_runs_tenant on leaving_runs (tenant);

-- Events

-- A rowid table: bodies of one to two kilobytes, the usual size, stay on its leaf pages, while a
-- table without rowid would move them to overflow pages (11.7 against 23.5 µs per insert).
-- There is no index on type: readers bound their scan by offsets instead, see log.ts.
create table events (
  tenant integer not null,
  offset integer not null,
  id text not null,
  type text not null,
  time integer not null,
  published_at integer not null,                -- never falls along the log
  body text not null,
  trace text,                                   -- W3C traceparent of the request that published it
  -- A keyed hash of type and data of an event whose id its publisher chose (rules/content.ts); null for
  -- others, and for some events from before there was one.
  content blob,
  primary key (tenant, offset),
  unique (tenant, id)
) strict;

-- Pruned events that open deliveries still need, each once however many need it.
create table kept_events (
  tenant integer not null,
  offset integer not null,
  id text not null,
  body text not null,
  trace text,
  primary key (tenant, offset)
) strict;

-- The types of the events in the log, with the newest event of each. Nodes remember types in memory and write
-- them every few seconds: an index on the type would cost each publish.
create table event_types (
  tenant integer not null,
  type text not null,
  last_offset integer not null,
  last_seen_at integer not null,
  primary key (tenant, type)
) strict, without rowid;

-- Streams

create table streams (
  tenant integer not null,
  id text not null,
  name text not null,
  status text not null check (status in ('enabled', 'disabled')),
  subscriptions text not null,                  -- [{"after": offset, "types": [...]}, ...]
  destination blob not null,                    -- sealed JSON
  signing_secrets blob not null,                -- sealed JSON
  version integer not null,
  created_at integer not null,
  updated_at integer not null,
  -- When a limit disabled the stream last. It stays when somebody enables it, so that it is reported.
  disabled_at integer,
  disabled_reason text,                         -- by_hand, consecutive_failures, open_failures or lag
  lag_reported integer not null default 0,      -- percentage of the bound on lag that was reported last
  lag_at integer not null default 0,            -- of that report, or when the stream was disabled for lag
  delivery text,                                -- how events are delivered: JSON; null where nothing is set
  -- 1 if the newest selection has a filter: the filters of a tenant are counted.
  filtered integer not null default 0,
  -- When the client certificate expires, outside of the sealed destination; null without one.
  certificate_expires_at integer,
  -- The alert about this certificate that is in the store: 'near', 'expired', or null for none.
  certificate_reported text,
  paused_at integer,                            -- null: not paused
  pause_reason text,
  -- When the stream was disabled, and the code of its last failed attempt then; null where not known.
  disabled_since integer,
  disabled_code text,
  primary key (tenant, id),
  unique (tenant, name)
) strict, without rowid;

-- The list of streams, and whether the one in memory is still right, without their sealed columns.
create index streams_listed on streams (tenant, id, version, name, status, paused_at);
create index streams_filtered on streams (tenant) where filtered = 1;
create index streams_certificates on streams (certificate_expires_at)
  where certificate_expires_at is not null;

-- Selections of streams that apply to no event after the cursor, while the log has events to which they
-- applied. streams.subscriptions has the others.
create table past_selections (
  tenant integer not null,
  stream text not null,
  after_offset integer not null,                -- it applied to the events after this one
  to_offset integer not null,                   -- up to this one
  types text not null,                          -- JSON
  filter text,                                  -- JSON; null without one
  primary key (tenant, stream, after_offset)
) strict;

create index past_selections_to on past_selections (tenant, to_offset, after_offset);

-- Ranges of the log that streams passed over when they were enabled again. Removed with the last of their
-- events.
create table skipped_ranges (
  tenant integer not null,
  stream text not null,
  from_offset integer not null,                 -- the range begins after it
  to_offset integer not null,                   -- last of the range
  events integer,                               -- that the stream wanted; null: not counted
  at_least integer not null default 0,          -- 1: there may be more
  skipped_at integer not null,
  primary key (tenant, stream, from_offset)
) strict, without rowid;

create index skipped_ranges_to on skipped_ranges (tenant, to_offset);

-- What was alerted about a tenant.
create table alert_states (
  tenant integer primary key,
  at integer not null,                          -- of the last check of the failures
  state text not null                           -- what the next check has to know
) strict;

-- Nodes and what they own

create table nodes (
  id text primary key,
  incarnation integer not null,
  last_batch integer not null,                  -- of this incarnation
  -- By the monotonic clock of the process that has the file; void when it is opened, as every node was
  -- part of a process that is gone.
  lease_until real not null default 0,
  last_claim integer not null default 0         -- of this incarnation
) strict, without rowid;

-- What moves while a stream runs. `key` stands for the stream in attempts, where the pair of tenant
-- and id would double the size of a row; it is never used again after the stream is deleted.
create table runs (
  key integer primary key autoincrement,
  tenant integer not null,
  stream text not null,
  cursor integer not null,
  run integer not null,                         -- how often the stream was enabled
  consecutive_failures integer not null,
  total_failures integer not null,
  owner text,
  epoch integer not null,                       -- how often the stream was claimed
  claim integer not null default 0,             -- which claim of its owner took the stream
  unseen integer not null default 0,            -- 1: the owner works by the stream before a change
  -- The total of the pauses of the stream that ended. deliveries.cycle_at does not count them: it is the time
  -- at which the cycle began less the pauses before.
  paused_ms integer not null default 0,
  -- The results of the last attempts.
  last_delivered_at integer,
  last_failed_at integer,
  last_error_code text,
  settled_above text,                           -- in order: the settled events above the cursor, as JSON
  -- The cursor with which the stream was created: events up to it were not meant for it. Null where it is
  -- not known.
  first_offset integer,
  -- Since when the store refuses results of the stream, and the code of its error; null once one is recorded.
  refused_at integer,
  refused_code text,
  -- When the oldest attempt began that failed since the last success, at the earliest that success; null
  -- without one. An attempt that hangs is as old as it is, not as its timeout is.
  failing_since integer,
  unique (tenant, stream)
) strict;

create index runs_free on runs (tenant, stream) where owner is null;
create index runs_unseen on runs (owner) where unseen = 1;

-- Deliveries

create table deliveries (
  tenant integer not null,
  stream text not null,
  event_id text not null,
  offset integer,                               -- null for a test event
  type text not null,
  time integer not null,
  -- For `in` with more than two values in a check, SQLite fills a table in memory at each insert, which took a
  -- fifth of the settlement of a failure.
  kind text not null
    check (kind = 'first' or kind = 'redelivery' or kind = 'test' or kind = 'replay'),
  -- blocked: waits behind its key
  state text not null
    check (state = 'parked' or state = 'retrying' or state = 'failed' or state = 'blocked'),
  attempt integer not null,
  due_at integer check ((due_at is null) = (state in ('failed', 'blocked'))),
  failed_at integer check ((failed_at is not null) = (state = 'failed' or kind = 'redelivery')),
  -- When the first attempt of the cycle was recorded; null where it is not known.
  cycle_at integer,
  order_key text,                               -- the hash of the key of an ordered event
  error_code text not null default '',          -- of the last failed attempt; empty where it is not known
  redelivery text,                              -- the request for many redeliveries that it is part of
  body text,                                    -- only where the log does not have the event
  trace text,                                   -- the same
  -- The order of the list of all failures, and of deliveries that wait for a retry: when the failure was
  -- opened, or the cycle began.
  listed_at integer generated always as (case
    when failed_at is not null then failed_at
    when state = 'retrying' and attempt > 1 then coalesce(cycle_at, 0)
  end) virtual,
  -- Begins with the event, so that it also serves what searches by event.
  primary key (tenant, event_id, stream)
) strict, without rowid;

create index deliveries_due on deliveries (tenant, stream, due_at) where due_at is not null;
create index deliveries_failed on deliveries (tenant, stream, failed_at, event_id)
  where failed_at is not null;
-- Finds the delivery of an entry of the history, and those above the cursor of a stream, which may have
-- thousands of failures below it.
create index deliveries_offset on deliveries (tenant, stream, offset);
-- However many others wait, those of a replay are found at once.
create index deliveries_replay on deliveries (tenant, stream, due_at)
  where kind = 'replay' and due_at is not null;
create index deliveries_order on deliveries (tenant, stream, order_key, state, offset)
  where order_key is not null;
create index deliveries_listed on deliveries (tenant, listed_at, event_id, stream)
  where listed_at is not null;
create index deliveries_code on deliveries (tenant, stream, error_code, failed_at, event_id)
  where failed_at is not null;
-- Counts the deliveries of a tenant that wait for an attempt.
create index deliveries_waiting on deliveries (tenant, state) where due_at is not null;

-- How many open failures a stream has of each error code. Triggers keep it, so that it is true whatever
-- opens, changes or closes a failure.
create table failure_groups (
  tenant integer not null,
  stream text not null,
  error_code text not null,
  count integer not null,
  -- When an attempt of a failure failed last with this code, and the event of it; null where it is not known.
  last_attempt_at integer,
  last_event text,
  primary key (tenant, stream, error_code)
) strict, without rowid;

-- The history, insert only: 2.6 µs and 50 bytes a row; with tenant and stream id in the key it was
-- 3.6 µs and 105 bytes. Rows are in the order in which attempts ended.
create table attempts (
  stream_key integer not null,
  event_key integer not null,                   -- the offset, or testKeyOf a test event (rows/attempts.ts)
  at integer not null,
  duration_ms real not null,
  outcome integer not null,                     -- 1 delivered, 2 failed, 3 redelivered, 4 dismissed
  status integer,
  error text
) strict;

create index attempts_key on attempts (stream_key, event_key);

-- Entries that open deliveries still need, older than the others are kept. Their numbers are below those of
-- `attempts`, which are given out again once that table is empty: the rowid that the entry had there less
-- 4503599627370496.
create table attempts_kept (
  number integer primary key,
  stream_key integer not null,
  event_key integer not null,
  at integer not null,
  duration_ms real not null,
  outcome integer not null,
  status integer,
  error text
) strict;

create index attempts_kept_key on attempts_kept (stream_key, event_key);

create table stream_stats (
  tenant integer not null,
  stream text not null,
  hour integer not null,                        -- its first millisecond
  delivered integer not null,
  failed integer not null,
  primary key (tenant, stream, hour)
) strict, without rowid;

-- What became of deliveries, by stream and by tenant (stream ''). Nodes count minutes in memory and write
-- them every few seconds, each its own rows; upkeep adds them up to hours and days.
create table delivery_stats (
  tenant integer not null,
  stream text not null,
  unit text not null check (unit in ('minute', 'hour', 'day')),
  starts_at integer not null,
  writer text not null,                         -- the process that counted a minute; '' for a sum
  published integer not null,
  delivered integer not null,
  failed integer not null,
  retried integer not null,
  latency text not null,                        -- histograms, see histogram.ts
  duration text not null,
  primary key (tenant, stream, unit, starts_at, writer)
) strict, without rowid;

create index delivery_stats_age on delivery_stats (unit, starts_at);

-- How far minutes are added up to hours, and hours to days: in the unit that starts at starts_at up to this
-- stream, in all units before it completely.
create table delivery_stats_sums (
  unit text not null primary key check (unit in ('hour', 'day')),
  starts_at integer not null,
  last_tenant integer not null,
  last_stream text not null
) strict, without rowid;

-- Ranges of the log, or chosen events of it, that are sent to a stream again.
create table replays (
  tenant integer not null,
  stream text not null,
  id text not null,
  from_offset integer not null,                 -- the range begins after it
  position integer not null,                    -- events up to here have a row, or were passed
  to_offset integer not null,                   -- last of the range
  passed integer not null,                      -- the stream's cursor when it was accepted
  event_types text,                             -- JSON; null for all
  matched integer not null,
  sent integer not null,
  failed integer not null,
  status text not null check (status in ('running', 'done', 'cancelled', 'failed')),
  created_at integer not null,
  finished_at integer check ((finished_at is null) = (status = 'running')),
  offsets text,                                 -- of chosen events, as JSON; null for a range
  primary key (tenant, stream, id)
) strict, without rowid;

create unique index replays_running on replays (tenant, stream) where status = 'running';
create index replays_finished on replays (finished_at) where finished_at is not null;

-- Requests that redeliver failures of many streams. They are accepted with their total, and worked on in
-- steps of some hundred failures.
create table redeliveries (
  tenant integer not null,
  id text not null,
  selection text not null,                      -- JSON
  work text not null check (work in ('taking', 'cancelling', 'none')),
  position text not null,                       -- the last stream that this work has done
  created_at integer not null,
  created_by text not null,                     -- id of the client
  cancelled_at integer,
  -- Where the work is within the stream after `position`: the last failure that a step has read.
  after_at integer not null default 0,
  after_event text not null default '',
  -- 1 if some streams had too many failures to count them at the acceptance.
  at_least integer not null default 0,
  primary key (tenant, id)
) strict, without rowid;

create index redeliveries_created on redeliveries (created_at);
create index redeliveries_work on redeliveries (tenant, id) where work <> 'none';

-- The progress of each stream, counted while its run is locked, so that nodes do not wait for each other.
create table redelivery_streams (
  tenant integer not null,
  id text not null,
  stream text not null,
  total integer not null,
  delivered integer not null default 0,
  failed integer not null default 0,
  skipped integer not null,
  -- Failures that were counted at the acceptance and that no step has found yet.
  unread integer not null default 0,
  primary key (tenant, id, stream)
) strict, without rowid;

create index redelivery_streams_stream on redelivery_streams (tenant, stream);

-- Requests that dismiss open failures, worked on as those of redeliveries. dismissal_streams has the result,
-- except of some old requests, which have it in dismissed and skipped.
create table dismissals (
  tenant integer not null,
  id text not null,
  dismissed integer not null,
  skipped integer not null,                     -- matching failures that stayed open
  created_at integer not null,
  created_by text not null,                     -- id of the client
  selection text not null default '{}',
  work text not null default 'none' check (work in ('taking', 'none')),
  position text not null default '',
  after_at integer not null default 0,
  after_event text not null default '',
  at_least integer not null default 0,
  -- Set while failures are opened again: no stream gets as many open ones.
  reopen_below integer,
  primary key (tenant, id)
) strict, without rowid;

create index dismissals_created on dismissals (created_at);
create index dismissals_work on dismissals (tenant, id) where work <> 'none';

create table dismissal_streams (
  tenant integer not null,
  id text not null,
  stream text not null,
  total integer not null,
  dismissed integer not null default 0,
  skipped integer not null default 0,
  unread integer not null,
  reopened integer not null default 0,
  primary key (tenant, id, stream)
) strict, without rowid;

create index dismissal_streams_stream on dismissal_streams (tenant, stream);

-- Events of the log of which a failure was dismissed. The history says so as well, but may be removed
-- before the event.
create table dismissed_events (
  tenant integer not null,
  offset integer not null,
  stream text not null,
  -- What the dismissal closed, to open it again: the request, and the row of the failure. Null for some old
  -- dismissals, which are not opened again.
  dismissal text,
  event_id text,
  type text,
  time integer,
  kind text,
  attempt integer,
  failed_at integer,
  error_code text,
  primary key (tenant, offset, stream)
) strict, without rowid;

create index dismissed_events_dismissal on dismissed_events (tenant, dismissal, stream, offset)
  where dismissal is not null;

-- The counts of failures and of redeliveries follow deliveries. Without `do update`: after that, SQLite copies
-- each page that a statement on deliveries changes, so that it could undo a part of the statement.

create trigger failure_added after insert on deliveries when new.failed_at is not null begin
  insert into failure_groups (tenant, stream, error_code, count)
  values (new.tenant, new.stream, new.error_code, 0)
  on conflict do nothing;
  update failure_groups set count = count + 1
  where tenant = new.tenant and stream = new.stream and error_code = new.error_code;
end;

create trigger failure_removed after delete on deliveries when old.failed_at is not null begin
  update failure_groups set count = count - 1
  where tenant = old.tenant and stream = old.stream and error_code = old.error_code;
  delete from failure_groups
  where tenant = old.tenant and stream = old.stream and error_code = old.error_code and count = 0;
end;

create trigger failure_opened after update of failed_at, error_code on deliveries
when new.failed_at is not null and (old.failed_at is null or old.error_code <> new.error_code) begin
  insert into failure_groups (tenant, stream, error_code, count)
  values (new.tenant, new.stream, new.error_code, 0)
  on conflict do nothing;
  update failure_groups set count = count + 1
  where tenant = new.tenant and stream = new.stream and error_code = new.error_code;
end;

create trigger failure_closed after update of failed_at, error_code on deliveries
when old.failed_at is not null and (new.failed_at is null or old.error_code <> new.error_code) begin
  update failure_groups set count = count - 1
  where tenant = old.tenant and stream = old.stream and error_code = old.error_code;
  delete from failure_groups
  where tenant = old.tenant and stream = old.stream and error_code = old.error_code and count = 0;
end;

create trigger redelivery_delivered after delete on deliveries
when old.redelivery is not null and old.state <> 'failed' begin
  update redelivery_streams set delivered = delivered + 1
  where tenant = old.tenant and id = old.redelivery and stream = old.stream;
end;

create trigger redelivery_failed after update of state on deliveries
when old.redelivery is not null and old.state <> 'failed' and new.state = 'failed' begin
  update redelivery_streams set failed = failed + (new.redelivery is not null),
    skipped = skipped + (new.redelivery is null)
  where tenant = old.tenant and id = old.redelivery and stream = old.stream;
end;

-- Access

create table clients (
  tenant integer not null,
  id text not null,
  name text not null,
  global integer not null check (global in (0, 1)),
  issuer text,
  secret_hash text,
  jwks text,
  version integer not null,
  created_at integer not null,
  -- Rises when the secret of a client is replaced or one of its keys removed; a token with another
  -- version is no longer accepted.
  credentials_version integer not null default 1,
  -- Here and below: fields that are stored and returned without effect, as a JSON object.
  carried text,
  primary key (tenant, id)
) strict, without rowid;

create index clients_created on clients (tenant, created_at, id);

-- Which assertions of private_key_jwt were used, until they expire.
create table assertions (
  tenant integer not null,
  client text not null,
  jti text not null,
  expires_at integer not null,
  primary key (tenant, client, jti)
) strict, without rowid;

create index assertions_expires on assertions (tenant, expires_at);

create table apis (
  tenant integer not null,
  id text not null,
  identifier text not null,
  name text not null,
  scopes text not null,                         -- [{"value": "...", "description": "..."}, ...]
  enforce_policies integer not null check (enforce_policies in (0, 1)),
  token_dialect text not null check (token_dialect in ('access_token', 'access_token_authz')),
  token_lifetime_seconds integer not null,
  created_at integer not null,
  carried text,
  primary key (tenant, id),
  unique (tenant, identifier)
) strict, without rowid;

create index apis_created on apis (tenant, created_at, id);

create table grants (
  tenant integer not null,
  id text not null,
  client text not null,
  api text not null,                            -- 'management' has no row in apis
  scope text not null,                          -- ["...", ...]
  carried text,
  primary key (tenant, id),
  unique (tenant, client, api)
) strict, without rowid;

create index grants_api on grants (tenant, api);

-- The users of the database connections. A username is unique per connection like an e-mail; users
-- without one do not clash, because null equals nothing.
create table users (
  tenant integer not null,
  id text not null,
  connection text not null,
  email text not null,                          -- lower case
  username text,
  password_hash text not null,
  profile text not null,                        -- JSON object
  created_at integer not null,
  updated_at integer not null,
  primary key (tenant, id),
  unique (tenant, connection, email),
  unique (tenant, connection, username)
) strict;

-- Pages of users in the orders that may be asked for, from the index alone. Users of one value follow
-- by id, so that ties do not have to be sorted. The key has the order by id.
create index users_created on users (tenant, created_at, id);
create index users_updated on users (tenant, updated_at, id);
create index users_username on users (tenant, username, id);
create index users_email_id on users (tenant, email, id);

-- Roles group permissions; clients and users hold them.
create table roles (
  tenant integer not null,
  id text not null,
  name text not null,
  description text not null,
  created_at integer not null,
  carried text,
  primary key (tenant, id),
  unique (tenant, name)
) strict, without rowid;

create index roles_created on roles (tenant, created_at, id);

create table role_permissions (
  tenant integer not null,
  role text not null,
  api text not null,                            -- 'management' has no row in apis
  name text not null,
  primary key (tenant, role, api, name)
) strict, without rowid;

create index role_permissions_api on role_permissions (tenant, api);

create table role_clients (
  tenant integer not null,
  role text not null,
  client text not null,
  primary key (tenant, role, client)
) strict, without rowid;

create index role_clients_client on role_clients (tenant, client);

create table role_users (
  tenant integer not null,
  role text not null,
  user text not null,
  primary key (tenant, role, user)
) strict, without rowid;

create index role_users_user on role_users (tenant, user);

-- The keys that sign access tokens.
create table signing_keys (
  -- Rises with each key: two of one instant have an order.
  number integer primary key autoincrement,
  tenant integer not null,
  kid text not null,
  private_jwk blob not null,                    -- sealed JSON
  created_at integer not null,
  signs_from integer not null,
  expires_at integer,
  unique (tenant, kid)
) strict;

-- The keys that sign webhooks, Ed25519.
create table webhook_keys (
  -- Rises with each key: two of one instant have an order.
  number integer primary key autoincrement,
  tenant integer not null,
  kid text not null,
  private_jwk blob not null,                    -- sealed JSON
  created_at integer not null,
  signs_from integer not null,
  expires_at integer,
  unique (tenant, kid)
) strict;

-- Sessions of the web console. Of their secrets, and of one-time codes, only the SHA-256 is stored.
create table console_sessions (
  tenant integer not null,
  secret_hash blob not null,
  id text not null,                             -- shown in lists; grants nothing
  role text not null,
  user text not null,                           -- who signed in
  mapping text,                                 -- the entry of LEAT_CONSOLE_ROLES that gave the role
  created_at integer not null,
  used_at integer not null,                     -- a minute exact
  ends_at integer not null,
  primary key (tenant, secret_hash)
) strict, without rowid;

create unique index console_sessions_id on console_sessions (tenant, id);
create index console_sessions_ended on console_sessions (ends_at);

-- Codes of one-time links that begin a session; a code that is used is deleted.
create table console_codes (
  tenant integer not null,
  code_hash blob not null,
  role text not null,
  expires_at integer not null,
  primary key (tenant, code_hash)
) strict, without rowid;

create index console_codes_expired on console_codes (expires_at);

-- What happened to a tenant: changes, refusals, tokens. Entries of changes are written with the change.
create table audit_log (
  tenant integer not null,
  id text not null,
  at integer not null,
  type text not null,
  description text not null,
  client text,
  client_name text,                             -- at that time
  ip text,
  user_agent text,
  details text not null,                        -- JSON
  count integer not null,                       -- equal ones since then, this one included
  primary key (tenant, id)
) strict, without rowid;

-- The newest of one type, and of one type and client; and the oldest of all, which expire first.
create index audit_log_type on audit_log (tenant, type, at, id);
create index audit_log_client on audit_log (tenant, client, type, at, id);
create index audit_log_at on audit_log (at, tenant, id);

-- Ids of what the entries are about.
create table audit_targets (
  tenant integer not null,
  id text not null,
  target text not null,
  type text not null,
  client text,
  at integer not null,
  primary key (tenant, id, target)
) strict, without rowid;

create index audit_targets_target on audit_targets (tenant, target, type, at, id);
create index audit_targets_client on audit_targets (tenant, target, client, type, at, id);

-- The store itself

-- One row, sealed at the first start: a secret key that does not open it is the wrong one.
create table key_check (
  id integer primary key check (id = 1),
  sealed blob not null
) strict;
