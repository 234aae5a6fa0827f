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

create index users_email on users (tenant, email);
create index users_created on users (tenant, created_at, id);
