#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"

namespace dtrain {

/// `text` with everything a terminal would obey made visible: C0 and C1
/// controls, DEL, escape sequences, bidirectional overrides and invalid UTF-8
/// become `\x1b`-style escapes. Newlines are escaped too, so the result is one
/// line; tabs become a space.
std::string EscapeForTerminal(std::string_view text);

/// A JSON text in UTF-8 with the same characters, line ends apart, as `\u001b`:
/// the same document. Tabs stay.
std::string EscapeJsonForTerminal(std::string_view json);

/// `word` as a POSIX shell reads it back: in single quotes, unless every
/// character is one that no shell takes for another.
std::string QuoteForShell(std::string_view word);

/// QuoteForShell of a path, which no program takes for an option.
std::string QuotePathForShell(std::string_view path);

/// `command` as a message names it: 'dtrain list', in backticks where it has
/// quotes itself.
std::string NamedCommand(std::string_view command);

/// `text` as valid UTF-8: every invalid byte becomes U+FFFD.
std::string ToValidUtf8(std::string_view text);

/// Whether `text` is valid UTF-8 (no surrogates, no overlong forms).
bool IsValidUtf8(std::string_view text);

/// How many terminal columns valid UTF-8 `text` takes, near enough for tables:
/// one a code point, two for wide East Asian ones, none for combining marks.
std::size_t DisplayWidth(std::string_view text);

/// `text` cut to at most `width` columns, with an ellipsis if it was longer.
std::string Truncate(std::string_view text, std::size_t width);

/// The candidate nearest to `word` by edit distance (adjacent swaps count one),
/// or empty if none is near enough to be what was meant.
std::string NearestName(std::string_view word,
                        std::span<const std::string> candidates);

/// "; did you mean 'NAME'?" for the nearest candidate, or empty.
std::string DidYouMean(std::string_view word,
                       std::span<const std::string> candidates);

/// RFC 3339 in UTC with microseconds: "2026-11-21T07:35:44.000000Z".
std::string FormatTimestamp(Timestamp time);

/// A duration for people: "0.8s", "12s", "3m05s", "2h10m", "4d03h".
std::string FormatDuration(Duration duration);

/// "1:02:03": hours, minutes and whole seconds; "0:00:00" for less than none.
std::string FormatElapsed(Duration duration);

/// "12.3 MB", in powers of 1000.
std::string FormatBytes(std::int64_t bytes);

/// The shortest decimal text that reads back as `value`; "NaN", "Infinity" and
/// "-Infinity" for the rest.
std::string FormatNumber(double value);

/// Seconds (with fraction) or a number with one of the suffixes ms, s, m, h, d
/// ("90", "1.5h", "250ms"). Throws Error(kUsage) naming `what` otherwise.
Duration ParseDuration(std::string_view text, std::string_view what);

/// `text` split at every `separator`; empty pieces are kept.
std::vector<std::string> Split(std::string_view text, char separator);

/// `parts` with `separator` between them.
std::string Join(std::span<const std::string> parts,
                 std::string_view separator);

}  // namespace dtrain
