#!/bin/bash
# What Pistis needs of the public image's entry: the first start makes the user and the database that the variables name.
set -euo pipefail
bin=/opt/postgresql/bin
data=${PGDATA:-/var/lib/postgresql/data}
user=${POSTGRES_USER:-postgres}
database=${POSTGRES_DB:-$user}

if [ ! -s "$data/PG_VERSION" ]; then
  "$bin/initdb" --pgdata "$data" --username "$user" --encoding UTF8 --locale C.UTF-8 --auth-local trust \
    --auth-host scram-sha-256 --pwfile <(printf '%s' "${POSTGRES_PASSWORD:?is not set}") >/dev/null
  echo 'host all all all scram-sha-256' >>"$data/pg_hba.conf"
fi
# Before every start, so that a first start that was cut off is made good.
"$bin/postgres" --single -D "$data" postgres <<<"SELECT 1 FROM pg_database WHERE datname = '$database'" | grep -q '= "1"' ||
  "$bin/postgres" --single -D "$data" postgres <<<"CREATE DATABASE \"$database\"" >/dev/null
unset POSTGRES_PASSWORD
[ "${1:-postgres}" = postgres ] || exec "$@"
shift || true
exec "$bin/postgres" -D "$data" -c listen_addresses='*' -c unix_socket_directories=/var/run/postgresql "$@"
