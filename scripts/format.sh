#!/bin/bash
# Formats all C++ and CUDA files; with --check only lists those that are not
# formatted. The version of clang-format is pinned, since others format differently.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
clang_format=$(command -v clang-format-14 || true)
[ -n "$clang_format" ] || { scripts/setup --check; clang_format=clang-format-14; }
case ${1:-} in
  '') arguments=(-i) ;;
  --check) arguments=(--dry-run -Werror) ;;
  *) echo "usage: scripts/format.sh [--check]" >&2; exit 2 ;;
esac
git ls-files -coz --exclude-standard '*.h' '*.cc' '*.cpp' '*.cu' |
  { while IFS= read -rd '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done; } |
  sort -zu | xargs -0 -r -P "$(nproc)" -n 16 "$clang_format" --style=file "${arguments[@]}"
