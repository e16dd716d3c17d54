#!/bin/sh
# Sees to it that the packages of deploy/packages.txt are there.
#
#   tools/packages.sh STAGE...
#
# Installs what is missing with apt, as root or through sudo; where neither is at hand, says what is
# missing and how to install it, and fails. Does nothing, and asks for nothing, when all is there.
set -eu

list=$(dirname "$0")/../deploy/packages.txt
wanted=$(for stage in "$@"; do awk -v stage="$stage" '$1 == stage {print $2}' "$list"; done)
# What is installed, and what it stands in for: others package Node.js with npm in it.
there="
$(dpkg-query -W -f '${db:Status-Status} ${Package}, ${Provides}\n' |
  sed -n 's/^installed //p' | tr ',' '\n' | sed 's/(.*//; s/ //g')
"
missing=
for package in $wanted; do
  case $there in
    *"
$package
"*) ;;
    *) missing="$missing $package" ;;
  esac
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
  as_root=
elif command -v sudo >/dev/null 2>&1 && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
  echo "Installing with sudo:$missing" >&2
  as_root=sudo
else
  echo "These packages are missing, and installing them needs root:" >&2
  echo "  apt-get install$missing" >&2
  exit 1
fi

echo "Installing:$missing"
$as_root apt-get update -qq
# shellcheck disable=SC2086  # A list of names, meant to be split.
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends \
  $missing >/dev/null
