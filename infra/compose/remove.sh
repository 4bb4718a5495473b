#!/usr/bin/env bash
# Ends an install of docker-compose.yml and removes all of it from this machine: services, sandboxes, and every volume with
# the ledger in it. There is no way back.
#   infra/compose/remove.sh --yes
# PISTIS_ENV_FILE (.env) and COMPOSE_PROJECT_NAME say which install.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."

env_file=${PISTIS_ENV_FILE:-.env}
fail() {
  echo "remove: $1" >&2
  echo "  next: $2" >&2
  exit 1
}

install=$(sed -n 's/^PISTIS_INSTALL_ID=//p' "$env_file" 2>/dev/null || true)
[ -n "$install" ] || fail "$env_file names no install" "set PISTIS_ENV_FILE to the .env file that it was started with"
[ "${1:-}" = --yes ] || fail "this removes install $install with its ledger and all files" "infra/compose/remove.sh --yes"

compose() {
  if docker compose version >/dev/null 2>&1; then docker compose --env-file "$env_file" "$@"; else docker-compose --env-file "$env_file" "$@"; fi
}

# As in shared/docker/names.ts.
label=dev.pistis.install=$(printf %s "$install" | sha256sum | cut -c1-12)
each() { xargs --no-run-if-empty "$@" >/dev/null; }

# First the services, so that nobody makes sandboxes anew; sandboxes use a volume of theirs.
compose stop
docker ps --all --quiet --filter "label=$label" | each docker rm --force --volumes
docker network ls --quiet --filter "label=$label" | each docker network rm
docker volume ls --quiet --filter "label=$label" | each docker volume rm
compose down --volumes --remove-orphans
