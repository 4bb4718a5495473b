#!/usr/bin/env bash
# Brings a machine that has Node, npm and apt to where everything runs, saying what it does. Does nothing, quickly,
# when nothing is missing. Needs no systemd; works as root, with sudo, or says what to run.
# With --docker, which the tests need and `pistis dev` does not: also Docker, its daemon and the base images.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root"

say() { echo "setup: $*"; }
fail() {
  echo "setup: $1" >&2
  echo "  next: $2" >&2
  exit 1
}

with_docker=
case ${1:-} in
  '') ;;
  --docker) with_docker=1 ;;
  *) fail "unknown option: $1" "infra/setup.sh [--docker]" ;;
esac

[ "$(uname -s)" = Linux ] || fail "sandboxes need Linux, this is $(uname -s)" "use a Linux machine, virtual machine or container"

# Under `npm run` the PATH starts with node_modules/.bin, whose node is replaced below while it would be running.
outer_path=
IFS=: read -r -a entries <<<"$PATH"
for entry in "${entries[@]}"; do
  case $entry in */node_modules/.bin | */node-gyp-bin) ;; *) outer_path=$outer_path:$entry ;; esac
done
outer_path=${outer_path#:}

have() { PATH=$outer_path:/usr/sbin:/sbin command -v "$1" >/dev/null 2>&1; }

docker_packages() {
  have dockerd || [ -n "${DOCKER_HOST:-}" ] || echo docker.io
  have docker || echo docker.io
  have iptables || echo iptables
  have docker-compose || docker compose version >/dev/null 2>&1 || echo docker-compose
  have debootstrap || echo debootstrap
  [ -e /sys/fs/cgroup/cgroup.controllers ] || [ -d /sys/fs/cgroup/memory ] || echo cgroupfs-mount
}

system_packages() {
  local wanted=()
  have bwrap || wanted+=(bubblewrap)
  have git || wanted+=(git)
  have flock && have setpriv && have unshare || wanted+=(util-linux)
  [ -e /etc/ssl/certs/ca-certificates.crt ] || wanted+=(ca-certificates)
  [ -z "$with_docker" ] || mapfile -t -O "${#wanted[@]}" wanted < <(docker_packages | sort -u)
  [ "${#wanted[@]}" -gt 0 ] || return 0
  have apt-get || fail "missing: ${wanted[*]}, and there is no apt-get" "install them with your system's package manager"
  local as_root=()
  if [ "$(id -u)" != 0 ]; then
    have sudo && sudo -n true 2>/dev/null ||
      fail "missing: ${wanted[*]}" "run: sudo apt-get update && sudo apt-get install -y --no-install-recommends ${wanted[*]}"
    as_root=(sudo -n)
  fi
  say "installing with apt: ${wanted[*]}"
  "${as_root[@]}" apt-get -qq update
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes \
    apt-get -qq install -y --no-install-recommends "${wanted[@]}" >/dev/null
}

# npm notes in node_modules what it has put there. Optional packages may be left out: they are for other machines.
npm_packages_match() {
  [ -e node_modules/.package-lock.json ] && PATH=$outer_path node -e '
    const { readFileSync } = require("node:fs");
    const packages = (file) => JSON.parse(readFileSync(file, "utf8")).packages;
    const installed = packages("node_modules/.package-lock.json");
    const differs = ([path, { version, optional }]) =>
      path !== "" && installed[path]?.version !== version && !(optional && installed[path] === undefined);
    process.exit(Object.entries(packages("package-lock.json")).some(differs) ? 1 : 0);'
}

npm_packages() {
  npm_packages_match && return 0
  PATH=$outer_path command -v npm >/dev/null || fail "there is no npm" "install Node with npm"
  say "installing the npm packages of package-lock.json (npm ci)"
  PATH=$outer_path npm ci --no-audit --no-fund --loglevel=error
}

system_packages
npm_packages

case $(uname -m) in
  x86_64) arch=x64 ;;
  aarch64) arch=arm64 ;;
  *) fail "no Node is pinned for $(uname -m)" "use an x86_64 or aarch64 machine" ;;
esac
node=$root/node_modules/node-linux-$arch/bin/node
[ -x "$node" ] || fail "npm did not install the pinned Node ($node)" "run npm ci without --omit=optional"

# So that `npx pistis` finds it at once.
ln -sfn ../../services/cli/pistis node_modules/.bin/pistis

if [ -z "${NATS_URL:-}" ]; then "$node" infra/fetch-nats-server.ts; fi
"$node" infra/build-pistisd.ts

if [ -n "$with_docker" ]; then
  bash infra/docker/engine.sh start
  PISTIS_OUTER_PATH=$outer_path bash infra/images/bases.sh
fi
