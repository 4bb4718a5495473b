#!/usr/bin/env bash
# Docker's daemon on a machine where nothing starts it: no systemd, as in a virtual machine or a container.
#   engine.sh start    does nothing when a daemon answers; else starts one in the background, and returns when it answers
#   engine.sh stop     ends the one that `start` started, and no other
#   engine.sh started  exit code 0 when one that `start` started runs
set -euo pipefail

STATE=/run/pistis-docker
PIDFILE=$STATE/dockerd.pid
LOG=/var/log/pistis-dockerd.log
START_SECONDS=60
STOP_SECONDS=30

say() { echo "docker: $*"; }
fail() {
  echo "docker: $1" >&2
  echo "  next: $2" >&2
  exit 1
}

answers() { docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

# A process number alone may be another program's by now.
runs_as() { [ -n "$2" ] && [ "$(cat "/proc/$2/comm" 2>/dev/null)" = "$1" ]; }
pid_in() { cat "$1" 2>/dev/null || true; }
started() { runs_as dockerd "$(pid_in "$PIDFILE")"; }

wait_for() {
  local seconds=$1 deadline=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$deadline" ] || return 1
    sleep 0.2
  done
}

is_root() { [ "$(id -u)" = 0 ]; }
has_sudo() { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }

start_with_sudo() {
  local group="sudo usermod -aG docker $(id -un), then log in again"
  has_sudo || fail "no Docker daemon answers to $(id -un)" "sudo systemctl start docker; $group"
  sudo -n bash "$0" start
  answers || fail "Docker runs, but not for $(id -un)" "$group"
}

# Without systemd nobody has mounted the control groups.
mount_cgroups() {
  if [ -e /sys/fs/cgroup/cgroup.controllers ] || [ -d /sys/fs/cgroup/memory ]; then return; fi
  command -v cgroupfs-mount >/dev/null || fail "no control groups are mounted" "apt-get install -y cgroupfs-mount"
  cgroupfs-mount
}

# dockerd and its containerd believe such a file for as long as any process has that number.
forget_stale() {
  local pair
  for pair in dockerd:/run/docker.pid dockerd:"$PIDFILE" containerd:/run/docker/containerd/containerd.pid; do
    runs_as "${pair%%:*}" "$(pid_in "${pair#*:}")" || rm -f "${pair#*:}"
  done
}

start() {
  if answers; then return; fi
  [ -z "${DOCKER_HOST:-}" ] || fail "no Docker daemon answers at DOCKER_HOST=$DOCKER_HOST" "start it, or unset DOCKER_HOST"
  if ! is_root; then
    start_with_sudo
    return
  fi
  command -v dockerd >/dev/null || fail "there is no dockerd" "apt-get install -y docker.io iptables"
  mkdir -p "$STATE"
  exec 9>"$STATE/lock"
  flock 9
  # Another one may be on its way up: started by an init script, or by whoever held the lock.
  if runs_as dockerd "$(pid_in /run/docker.pid)" || started; then
    wait_for "$START_SECONDS" answers || fail "dockerd runs and does not answer" "see its log; $LOG if this script started it"
    return
  fi
  mount_cgroups
  forget_stale
  say "starting dockerd in the background (log: $LOG)"
  setsid dockerd --pidfile "$PIDFILE" >"$LOG" 2>&1 </dev/null 9>&- &
  local pid=$!
  up_or_ended() { answers || ! kill -0 "$pid" 2>/dev/null; }
  wait_for "$START_SECONDS" up_or_ended || true
  answers || {
    tail -n 15 "$LOG" >&2
    fail "dockerd did not start" "see $LOG"
  }
}

stop() {
  if ! started; then return; fi
  if ! is_root; then
    sudo -n bash "$0" stop
    return
  fi
  local pid
  pid=$(pid_in "$PIDFILE")
  say "stopping the dockerd that was started here"
  kill -TERM "$pid"
  gone() { ! kill -0 "$pid" 2>/dev/null; }
  wait_for "$STOP_SECONDS" gone || fail "dockerd ($pid) does not stop" "see $LOG"
}

case ${1:-} in
  start | stop | started) "$1" ;;
  *) fail "unknown command: ${1:-none}" "engine.sh start, stop or started" ;;
esac
