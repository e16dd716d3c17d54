#!/bin/sh
# Runs Node with what is beside it:
#
#   tests/web/run.sh FOLDER --test page.test.mjs
#
# in FOLDER of the build tree, where the npm packages go on first use: Node finds them from where a
# file lies. Ends with 77, which CTest shows as skipped, where there is no Node or npm, or no Chromium
# for those that drive it.
set -eu

source=$(cd "$(dirname "$0")" && pwd)
folder=$1
shift

case "$*" in
  *openai*) programs="node npm" ;;
  *) programs="node npm chromium" ;;
esac
for program in $programs; do
  command -v "$program" >/dev/null 2>&1 || { echo "skipped: there is no $program"; exit 77; }
done

# Copies what changed alone, for another test may be reading it.
prepare() {
  for file in "$source"/*.mjs "$source"/package*.json; do
    cmp -s "$file" "$folder/$(basename "$file")" || cp "$file" "$folder"
  done
  cmp -s "$folder/package-lock.json" "$folder/installed.json" && return
  (cd "$folder" && npm ci --ignore-scripts --no-audit --no-fund)
  cp "$folder/package-lock.json" "$folder/installed.json"
}

mkdir -p "$folder"
(flock 9; prepare) 9>"$folder/lock"
cd "$folder"
exec node "$@"
