#!/bin/sh
# Entry point of both databases. An empty volume becomes a new primary at the server that $PRIMARY names, and a
# copy of the primary at the other one. A server with data starts with what it was: primary or standby.
set -eu

if [ ! -s "$PGDATA/PG_VERSION" ] && [ "$NAME" != "$PRIMARY" ]; then
  copy=$PGDATA.copy
  rm -rf "$copy"
  mkdir -p "$(dirname "$PGDATA")"
  back_up() {
    PGPASSWORD=$REPLICATION_PASSWORD pg_basebackup --pgdata "$copy" --write-recovery-conf \
      --wal-method stream --checkpoint fast --no-password --slot leat_standby "$@" \
      --dbname "host=$PRIMARY port=${PGPORT:-5432} user=replicator application_name=leat_standby"
  }
  # The slot keeps the WAL that this server has not received. It exists where an earlier copy was interrupted.
  back_up --create-slot || back_up
  # After a promotion nothing follows this server at first: its commits must not wait for a standby.
  echo "synchronous_standby_names = ''" >>"$copy/postgresql.auto.conf"
  # In one step, so that an interrupted copy never starts.
  if [ -d "$PGDATA" ]; then rmdir "$PGDATA"; fi
  mv "$copy" "$PGDATA"
fi

exec docker-entrypoint.sh postgres "$@"
