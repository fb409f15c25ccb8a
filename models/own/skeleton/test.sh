#!/bin/sh
# Tests that the model trains: a smoke test, then a whole training that must reach
# an accuracy. Keeps nothing.
#
#   ./test.sh    with DTRAIN=PATH to use another dtrain
set -eu
dtrain=${DTRAIN:-dtrain}
# DTRAIN must exist if it is set. Otherwise the dtrain that wrote this file is used,
# or the one in PATH if that is gone.
[ "${DTRAIN:-}" ] || command -v "$dtrain" > /dev/null || dtrain=dtrain
dtrain=$(command -v "$dtrain") || { echo "dtrain not found: ${DTRAIN:-}" >&2; exit 127; }
case $dtrain in /*) ;; */*) dtrain=$PWD/$dtrain ;; esac
cd "$(dirname "$0")"
store=$(mktemp -d)
trap 'rm -rf "$store"' EXIT
run() { "$dtrain" --store "$store" create const.yaml "$@"; }
run --test
run --require 'val_accuracy >= 0.9'
