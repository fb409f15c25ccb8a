#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"

namespace dtrain {

/// Returns `text` with all that a terminal would interpret made visible: C0, C1
/// controls, DEL, escape sequences, bidirectional overrides and invalid UTF-8
/// become `\x1b`-style escapes. Newlines are escaped too, so the result is one
/// line; tabs become a space.
std::string EscapeForTerminal(std::string_view text);

/// Returns the same JSON document, a text in UTF-8, with those characters
/// except newlines as `\u001b`. Tabs stay.
std::string EscapeJsonForTerminal(std::string_view json);

/// Quotes `word` for a POSIX shell: in single quotes, unless no character of it
/// has a meaning in any shell.
std::string QuoteForShell(std::string_view word);

/// Quotes a path for a shell, so that no program reads it as an option.
std::string QuotePathForShell(std::string_view path);

/// Returns `command` in quotes, for a message: 'dtrain list', in backticks if
/// it contains quotes.
std::string NamedCommand(std::string_view command);

/// Converts `text` to valid UTF-8: every invalid byte becomes U+FFFD.
std::string ToValidUtf8(std::string_view text);

/// True if `text` is valid UTF-8 (no surrogates, no overlong forms).
bool IsValidUtf8(std::string_view text);

/// Returns the terminal columns of valid UTF-8, approximately: one for each
/// code point, two for wide East Asian ones, none for combining marks.
std::size_t DisplayWidth(std::string_view text);

/// Cuts `text` to at most `width` columns, the last ones of which are those of
/// `ellipsis` if it was longer. Messages and stored text have three dots, since
/// nothing is known of the terminal that will show them.
std::string Truncate(std::string_view text, std::size_t width,
                     std::string_view ellipsis = "...");

/// Returns the candidate nearest to `word` by edit distance (a swap of
/// neighbours counts one), or empty if none is similar.
std::string NearestName(std::string_view word,
                        std::span<const std::string> candidates);

/// Returns "; did you mean 'NAME'?" for the nearest candidate, or empty.
std::string DidYouMean(std::string_view word,
                       std::span<const std::string> candidates);

/// Formats a time by RFC 3339, in UTC: "2026-11-21T07:35:44.000000Z".
std::string FormatTimestamp(Timestamp time);

/// Parses a time as RFC 3339 writes it; a blank may replace the T. A date alone
/// is its midnight, and a time without an offset is UTC. Nothing for any other
/// text.
std::optional<Timestamp> ParseTimestamp(const std::string& text);

/// Formats a duration for reading: "0.8s", "12s", "3m05s", "2h10m", "4d03h".
std::string FormatDuration(Duration duration);

/// Formats hours, minutes and whole seconds, "1:02:03"; negative: "0:00:00".
std::string FormatElapsed(Duration duration);

/// Formats bytes in powers of 1000: "12.3 MB".
std::string FormatBytes(std::int64_t bytes);

/// Returns the shortest decimal text that reads back as `value`, or "NaN",
/// "Infinity", "-Infinity".
std::string FormatNumber(double value);

/// Parses seconds (with fraction) or a number with a suffix ms, s, m, h or d
/// ("90", "1.5h", "250ms"). Throws Error(kUsage) naming `what` otherwise.
Duration ParseDuration(std::string_view text, std::string_view what);

/// Returns the finite number that the whole of `text` is, in decimal or
/// scientific notation; nothing for any other text.
std::optional<double> ParseFinite(std::string_view text);

/// Returns `text` without the spaces and tabs at its ends.
std::string_view Trim(std::string_view text);

/// Splits `text` at every `separator`; empty pieces are kept.
std::vector<std::string> Split(std::string_view text, char separator);

/// Joins `parts` with `separator` between them.
std::string Join(std::span<const std::string> parts,
                 std::string_view separator);

/// Joins the first `most` of `parts` by commas: "a, b and 3 more".
std::string JoinFirst(std::span<const std::string> parts, std::size_t most);

/// Returns `bytes` as lower-case hex digits.
std::string ToHex(std::span<const std::byte> bytes);

/// Converts the result of ToHex back; nothing for any other text.
std::optional<std::vector<std::byte>> FromHex(std::string_view text);

}  // namespace dtrain
