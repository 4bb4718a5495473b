#!/usr/bin/env bash
# The public images that the Dockerfiles stand on, made here, for machines that reach Debian's packages and no image
# registry. What is there already, pulled or made, stays.
#   debian:bookworm-slim     debootstrap
#   node:24-bookworm-slim    the same with the Node that package.json pins, npm and the user `node`
#   pistis-base/musl         musl's loader and busybox, as on a system without glibc; for tests
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
DEBIAN=debian:bookworm-slim
NODE=node:24-bookworm-slim
MUSL=pistis-base/musl
SUITE=bookworm

say() { echo "bases: $*"; }
fail() {
  echo "bases: $1" >&2
  echo "  next: $2" >&2
  exit 1
}

has() { docker image inspect "$1" >/dev/null 2>&1; }
if has "$DEBIAN" && has "$NODE" && has "$MUSL"; then exit 0; fi

[ "$(id -u)" = 0 ] || fail "making base images needs root" "sudo bash infra/images/bases.sh, or docker pull $DEBIAN and $NODE"
# On a disk: a folder in memory may not hold a Debian, and may forbid device nodes.
work=$(mktemp -d /var/tmp/pistis-bases.XXXXXX)
trap 'rm -rf "$work"' EXIT

# As they are on this machine: `http://host/debian bookworm main`, one a line.
debian_sources() {
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    awk -v suite="$SUITE" '$2 == suite || index($2, suite "-") == 1' | sort -u
}

debian_base() {
  local sources mirror
  sources=$(debian_sources)
  mirror=$(awk -v suite="$SUITE" '$2 == suite && $3 == "main" {print $1; exit}' <<<"$sources")
  [ -n "$mirror" ] || fail "this machine's apt has no source for Debian $SUITE" "docker pull $DEBIAN"
  say "making $DEBIAN with debootstrap (a minute)"
  debootstrap --variant=minbase "$SUITE" "$work/debian" "$mirror" >"$work/debootstrap.log" 2>&1 || {
    tail -n 5 "$work/debootstrap.log" >&2
    fail "debootstrap failed" "docker pull $DEBIAN"
  }
  awk '{print "deb", $0}' <<<"$sources" >"$work/debian/etc/apt/sources.list"
  rm -rf "$work"/debian/var/cache/apt/archives/*.deb "$work"/debian/var/lib/apt/lists/*
  # Like the public slim image: neither manuals nor translations, and not with later packages either.
  rm -rf "$work"/debian/usr/share/{doc,man,locale,info}/*
  printf 'path-exclude /usr/share/%s/*\n' doc man locale info >"$work/debian/etc/dpkg/dpkg.cfg.d/slim"
  tar -C "$work/debian" --one-file-system -c . | docker import --change 'CMD ["bash"]' - "$DEBIAN" >/dev/null
}

node_base() {
  local node npm
  node=$(echo "$root"/node_modules/node-linux-*/bin/node)
  npm=$(PATH=${PISTIS_OUTER_PATH:-$PATH} npm root -g)/npm
  [ -x "$node" ] && [ -d "$npm" ] || fail "there is no pinned Node or no npm to put into $NODE" "npm ci; docker pull $NODE"
  say "making $NODE from the Node that package.json pins"
  mkdir -p "$work/node"
  cp "$node" "$work/node/node"
  cp -rL "$npm" "$work/node/npm"
  cat >"$work/node/Dockerfile" <<FILE
FROM $DEBIAN
COPY node /usr/local/bin/node
COPY npm /usr/local/lib/node_modules/npm
RUN ln -s node /usr/local/bin/nodejs \\
  && ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm \\
  && ln -s ../lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx \\
  && groupadd --gid 1000 node && useradd --uid 1000 --gid node --shell /bin/bash --create-home node
CMD ["node"]
FILE
  docker build -q --network none -t "$NODE" "$work/node" >/dev/null 2>"$work/build.log" || {
    tail -n 5 "$work/build.log" >&2
    fail "$NODE could not be built" "docker pull $NODE"
  }
}

musl_base() {
  say "making $MUSL from Debian's musl and busybox-static"
  mkdir -p "$work/packages" "$work/musl"/{bin,dev,etc,proc,root,sys,tmp,usr,var}
  # apt downloads as a user of its own, which may write here only if everyone may.
  chmod 1777 "$work" "$work/packages" "$work/musl/tmp"
  (cd "$work/packages" && apt-get -qq download musl busybox-static)
  local package
  for package in "$work"/packages/*.deb; do dpkg-deb -x "$package" "$work/musl"; done
  rm -rf "$work/musl/usr/share"
  local applet
  for applet in $("$work/musl/bin/busybox" --list); do
    [ "$applet" = busybox ] || ln -sf busybox "$work/musl/bin/$applet"
  done
  echo 'root:x:0:0:root:/root:/bin/sh' >"$work/musl/etc/passwd"
  echo 'root:x:0:' >"$work/musl/etc/group"
  tar -C "$work/musl" -c . | docker import --change 'ENV PATH=/usr/bin:/bin' --change 'CMD ["sh"]' - "$MUSL" >/dev/null
}

has "$DEBIAN" || debian_base
has "$NODE" || node_base
has "$MUSL" || musl_base
