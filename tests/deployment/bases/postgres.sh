#!/bin/sh
# As PostgreSQL's image does: the user, its password and its database come from POSTGRES_*.
set -e
data=/var/lib/postgresql/data
install -d -o postgres -g postgres "$data" /var/run/postgresql
printf %s "$POSTGRES_PASSWORD" > /tmp/password
chown postgres /tmp/password
as() { setpriv --reuid postgres --regid postgres --init-groups "$@"; }
as initdb -D "$data" -U "$POSTGRES_USER" --pwfile /tmp/password -A scram-sha-256 -E UTF8 --no-sync > /dev/null
printf 'host all all all scram-sha-256\n' >> "$data/pg_hba.conf"
printf 'CREATE DATABASE "%s"\n' "$POSTGRES_DB" | as postgres --single -D "$data" postgres > /dev/null
exec setpriv --reuid postgres --regid postgres --init-groups postgres -D "$data" -c "listen_addresses=*"
