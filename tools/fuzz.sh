#!/bin/bash
# Runs one fuzz target for a while, on a corpus that grows from its seeds:
#   tools/fuzz.sh BUILD_DIRECTORY SECONDS TARGET
# Fails, and leaves the input in BUILD_DIRECTORY, where it finds one that breaks the target.
set -euo pipefail
build=$1 seconds=$2 target=$3

corpus=$build/corpus/$target
mkdir -p "$corpus"
if FERMATA_FUZZ_CORPUS=$corpus "$build/bin/$target" -max_total_time="$seconds" -timeout=10 \
  -rss_limit_mb=2048 -artifact_prefix="$build/$target-" "$corpus" >"$build/$target.log" 2>&1; then
  grep '^Done' "$build/$target.log" | sed "s/^/$target: /"
else
  tail -40 "$build/$target.log"
  exit 1
fi
