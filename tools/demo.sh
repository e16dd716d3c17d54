#!/bin/bash
# Shows what Fermata is for, in one minute: a real server on the embedded model, a story streamed over
# gRPC, the same session resumed by its id, and what its state costs beside a KV cache.
#
#   tools/demo.sh DIRECTORY_OF_THE_BINARIES
set -euo pipefail

bin=$1
grpc=${FERMATA_GRPC_ADDRESS:-127.0.0.1:7411}
http=${FERMATA_HTTP_ADDRESS:-127.0.0.1:7412}
session=demo
scratch=$(mktemp -d)

"$bin/fermata-server" --grpc_address="$grpc" --http_address="$http" \
  --port_file="$scratch/ports" 2>"$scratch/log" &
server=$!
stop() {
  kill "$server" 2>/dev/null && wait "$server" 2>/dev/null
  rm -rf "$scratch"
}
trap stop EXIT
trap 'exit 130' INT TERM

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
run() {
  printf '\033[2m$ fermata %s\033[0m\n' "$*"
  "$bin/fermata" --server "$grpc" "$@"
  echo
}

# The ports' file comes once both are bound: before that, whoever answers there is not our server.
until [ -s "$scratch/ports" ] && "$bin/fermata" --server "$grpc" health >/dev/null 2>&1; do
  if ! kill -0 "$server" 2>/dev/null; then
    cat "$scratch/log" >&2
    exit 1
  fi
  sleep 0.1
done

say "The model"
run models

say "A story, streamed as its tokens come, in a session"
run generate --session "$session" --create --seed 3 --temperature 0.5 --max-new-tokens 80 --stats \
  "Once upon a time, there was a little fox who"

say "The same session, resumed by its id: the story goes on where it stopped"
run generate --session "$session" --seed 3 --temperature 0.5 --max-new-tokens 80 --stats

say "The session, in the server's memory"
run sessions show "$session"

say "What it costs, from http://$http/metrics"
curl -fsS "http://$http/metrics" | awk '
  $1 == "fermata_session_state_bytes" {state = $2}
  $1 == "fermata_session_kv_equivalent_bytes" {kv = $2}
  $1 == "fermata_kv_equivalent_bytes_per_token" {token = $2}
  $1 == "fermata_break_even_tokens" {even = $2}
  END {
    printf "%15.0f  bytes of state now, and at every position\n", state
    printf "%15.0f  bytes of KV equivalent now, %.0f more for every token\n", kv, token
    printf "%15.0f  tokens, where both are equal\n", even
    printf "%15.0f  bytes of KV equivalent at a million tokens: %.0f times the state\n", token * 1e6,
           token * 1e6 / state
  }'
