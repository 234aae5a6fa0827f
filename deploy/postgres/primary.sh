#!/bin/sh
# Runs once, when the image of PostgreSQL creates the data of the primary: roles, database, replication.
set -eu

psql --set ON_ERROR_STOP=1 --no-psqlrc --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'SQL'
\getenv database_password DATABASE_PASSWORD
\getenv replication_password REPLICATION_PASSWORD
create role leat login password :'database_password';
create role replicator login replication password :'replication_password';
create database leat owner leat;
-- In force from the next start on, which is when the standby can connect. As an argument of the server it
-- would be in force now, and the commits of this script would wait for ever.
alter system set synchronous_standby_names = 'leat_standby';
SQL

# "all" names no replication connections.
echo 'host replication replicator samenet scram-sha-256' >>"$PGDATA/pg_hba.conf"
