#!/bin/bash
# Runs the image fermata:latest as a user would and checks that it serves: healthy, generates,
# resumes, shows metrics, runs as nobody in particular, and stops cleanly on SIGTERM.
set -euo pipefail

fail() { echo "image test: $*" >&2; exit 1; }

if docker info >/dev/null 2>&1; then
  container=$(docker run --detach fermata:latest)
  trap 'docker rm --force "$container" >/dev/null' EXIT
  inside() { docker exec "$container" "$@"; }
  stop() {
    docker stop --time 20 "$container" >/dev/null
    status=$(docker wait "$container")
  }
  docker image inspect fermata:latest --format 'size: {{.Size}} bytes'
else
  export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
  container=$(buildah from fermata:latest)
  log=$(mktemp)
  # With chroot isolation the container shares this machine's network and process table.
  buildah run "$container" -- fermata-server --grpc_address=127.0.0.1:7411 \
    --http_address=127.0.0.1:7412 --log_format=json >"$log" 2>&1 &
  runner=$!
  trap 'kill "$runner" 2>/dev/null || true; buildah rm "$container" >/dev/null; rm -f "$log"' EXIT
  inside() { buildah run "$container" -- "$@"; }
  stop() {
    pkill -TERM -u 65532 -x fermata-server
    status=0
    wait "$runner" || status=$?
  }
  buildah inspect --type image --format 'image id: {{.FromImageID}}{{println}}' fermata:latest
  mounted=$(buildah mount "$container")
  echo "size: $(du -sb "$mounted" | cut -f1) bytes unpacked"
fi

for _ in $(seq 100); do
  if inside fermata health >/dev/null 2>&1; then break; fi
  sleep 0.2
done
inside fermata health || fail "never became healthy"
[ "$(inside id -u)" = 65532 ] || fail "does not run as its own user"
inside fermata generate --session image-test --create --seed 1 --max-new-tokens 20 \
  "Once upon a time" || fail "does not generate"
echo
inside fermata generate --session image-test --max-new-tokens 20 || fail "does not resume"
echo
inside curl -fsS http://127.0.0.1:7412/metrics | grep -q '^fermata_sessions{tier="memory"} 1' ||
  fail "metrics do not show the session"
stop
[ "$status" = 0 ] || fail "exit status $status after SIGTERM"
echo "image test: passed"
