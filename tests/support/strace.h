#pragma once

namespace dtrain {

/// First words of a shell script that uses strace. Ends it with 77 if strace is
/// missing or may not trace. LeakSanitizer, which fails in traced processes, is
/// switched off.
inline constexpr char kUnderStrace[] =
    "strace -o /dev/null true || exit 77; "
    "export ASAN_OPTIONS=detect_leaks=0:$ASAN_OPTIONS; ";

}  // namespace dtrain
