#!/bin/bash
# Builds the container image fermata:latest: with docker where an engine runs, else with buildah,
# which needs none.
set -euo pipefail
cd "$(dirname "$0")/.."

if docker info >/dev/null 2>&1; then
  exec docker build --tag fermata:latest .
fi

tools/packages.sh image
base=docker.io/library/debian:bookworm-slim
# chroot isolation and the vfs driver work without privileges that containers often lack.
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs

if ! buildah inspect --type image "$base" >/dev/null 2>&1 && ! buildah pull -q "$base" 2>/dev/null
then
  echo "The base image can not be pulled; making it with debootstrap."
  root=$(mktemp -d)
  trap 'rm -rf "$root"' EXIT
  debootstrap --variant=minbase bookworm "$root" >/dev/null
  rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/*
  container=$(buildah from scratch)
  buildah copy -q "$container" "$root" / >/dev/null
  buildah config --cmd /bin/bash "$container"
  buildah commit -q --rm "$container" "$base" >/dev/null
fi
# The docker format has the health check, which the default one leaves out.
buildah bud --format docker --tag fermata:latest .
