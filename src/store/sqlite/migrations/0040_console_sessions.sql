-- oldest that may run: 0014

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
