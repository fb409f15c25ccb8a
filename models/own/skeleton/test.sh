#!/bin/sh
# Does the model still train? A few batches of everything first, then a whole
# training that must come to something; nothing of it is kept.
#
#   ./test.sh    with DTRAIN=PATH where dtrain is not in PATH
set -eu
cd "$(dirname "$0")"
store=$(mktemp -d)
trap 'rm -rf "$store"' EXIT
run() { "${DTRAIN:-dtrain}" --store "$store" create const.yaml "$@"; }
run --test
run --require 'val_accuracy >= 0.9'
