#!/bin/bash
# Runs one fuzz target for a while:
#   tools/fuzz.sh BUILD_DIRECTORY SECONDS TARGET
# It starts from its seeds, from what is kept in tests/fuzz/corpus, and from what earlier runs left in
# BUILD_DIRECTORY/corpus. Fails where it finds an input that breaks the target, and leaves the input in
# BUILD_DIRECTORY. With FUZZ_KEEP=1 it then keeps, in tests/fuzz/corpus, the inputs that reach what
# those kept before do not.
set -euo pipefail
build=$1 seconds=$2 target=$3

corpus=$build/corpus/$target
kept=$(dirname "$0")/../tests/fuzz/corpus/${target%_fuzz}
log=$build/$target.log
mkdir -p "$corpus" "$kept"
if FERMATA_FUZZ_CORPUS=$corpus "$build/bin/$target" -max_total_time="$seconds" -timeout=10 \
  -rss_limit_mb=2048 -artifact_prefix="$build/$target-" "$corpus" "$kept" >"$log" 2>&1; then
  echo "$target: $(grep -o 'cov: .* corp: [^ ]*' "$log" | tail -1), $(grep '^Done' "$log")"
else
  tail -40 "$log"
  exit 1
fi
if [ -n "${FUZZ_KEEP:-}" ]; then
  "$build/bin/$target" -merge=1 -use_counters=0 -max_len=1000 "$kept" "$corpus" >>"$log" 2>&1
fi
