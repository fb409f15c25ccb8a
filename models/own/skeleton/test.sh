#!/bin/sh
# Does the model still train? A few batches of everything first, then a whole
# training that must come to something; nothing of it is kept.
#
#   ./test.sh    with DTRAIN=PATH to use another dtrain
set -eu
dtrain=${DTRAIN:-dtrain}
# What was given must be there; where the one that wrote this is gone, the one in
# PATH serves.
[ "${DTRAIN:-}" ] || command -v "$dtrain" > /dev/null || dtrain=dtrain
dtrain=$(command -v "$dtrain") || { echo "no dtrain there: ${DTRAIN:-}" >&2; exit 127; }
case $dtrain in /*) ;; */*) dtrain=$PWD/$dtrain ;; esac
cd "$(dirname "$0")"
store=$(mktemp -d)
trap 'rm -rf "$store"' EXIT
run() { "$dtrain" --store "$store" create const.yaml "$@"; }
run --test
run --require 'val_accuracy >= 0.9'
