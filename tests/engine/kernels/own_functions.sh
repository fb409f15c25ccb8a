#!/bin/bash
# own_functions.sh NM OBJECT...: fails if one of the kernels' objects offers the
# linker a copy of a function that other objects have as well.
set -euo pipefail
nm=$1
shift
seen=0
bad=0
for object in "$@"; do
  case $object in *conv_avx2* | *conv_avx512* | *conv_portable*) ;; *) continue ;; esac
  seen=$((seen + 1))
  if "$nm" -C --defined-only "$object" | grep -E '^[0-9a-f]+ [VWu] '; then
    echo "$object: shares the functions above; see conv_avx2.cc" >&2
    bad=1
  fi
done
[ $seen -gt 0 ] || { echo "none of the kernels' objects among: $*" >&2; exit 1; }
exit $bad
