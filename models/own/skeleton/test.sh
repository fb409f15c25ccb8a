#!/bin/sh
# Does the model still train? A few batches of everything first, then a whole
# training that must come to something; nothing of it is kept.
#
#   ./test.sh    with DTRAIN=PATH to use another dtrain
set -eu
cd "$(dirname "$0")"
dtrain=${DTRAIN:-dtrain}
# Where it is gone, the one in PATH serves.
command -v "$dtrain" > /dev/null || dtrain=dtrain
store=$(mktemp -d)
trap 'rm -rf "$store"' EXIT
run() { "$dtrain" --store "$store" create const.yaml "$@"; }
run --test
run --require 'val_accuracy >= 0.9'
