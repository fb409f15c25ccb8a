#pragma once

#include <cstddef>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

/// `--color`.
enum class ColorChoice { kAuto, kAlways, kNever };

/// Meanings of colours, which are never the only carrier of a meaning.
enum class Tone { kPlain, kGood, kBad, kWarning, kDim, kStrong };

/// Output mode of a stream.
struct TerminalMode {
  bool terminal = false;  // somebody looks at it
  bool color = false;
  bool redraw = false;    // lines may be drawn again in place
  bool utf8 = false;      // the locale's characters are in UTF-8
  std::size_t width = 0;  // columns; 0: no limit
  std::size_t height = 0;
};

/// Reads an environment variable; null if it is not set.
using Environment = std::function<const char*(const char* name)>;

/// Decides the mode: no colour or redraw if `terminal` is false or NO_COLOR, CI
/// or TERM=dumb are set; an explicit colour choice overrides that. UTF-8 if the
/// first of LC_ALL, LC_CTYPE and LANG that is set names it.
TerminalMode DecideMode(ColorChoice choice, bool terminal,
                        const Environment& environment);

/// Returns the mode of descriptor `fd`, with its size. Redrawing also requires
/// that stdout is a terminal.
TerminalMode GetTerminalMode(int fd, ColorChoice choice);

/// Indentation of the following lines of a message that is too long for one.
inline constexpr std::size_t kWrapIndent = 2;

/// Breaks `text` at blanks into lines of at most `width` columns (0: no limit).
/// The first begins in column `first`, the others are indented by `indent`.
/// What stands in 'quotes' or `backquotes`, such as a command to copy, stays on
/// one line, as does a word that is longer than one.
std::string WrapText(std::string_view text, std::size_t first,
                     std::size_t indent, std::size_t width);

/// Returns the sign of a cut text: one character where the locale has it, else
/// three dots.
std::string_view Ellipsis(const TerminalMode& mode);

/// Returns `text` in the colour of `tone`, if colours are on.
std::string Paint(const TerminalMode& mode, Tone tone, std::string_view text);

/// A value of a table, as text for people and raw for programs.
struct Cell {
  Cell(std::string text) : text(std::move(text)), raw(this->text) {}
  Cell(const char* text) : Cell(std::string(text)) {}
  Cell(std::string text, std::string raw, Tone tone = Tone::kPlain,
       std::size_t prefix = 0)
      : text(std::move(text)),
        raw(std::move(raw)),
        tone(tone),
        prefix(prefix) {}

  std::string text;
  std::string raw;
  Tone tone = Tone::kPlain;
  // Bytes at the start of `text`, such as a metric's name, that may be cut in
  // an elastic column to keep the rest whole.
  std::size_t prefix = 0;
};

struct Column {
  std::string name;  // snake_case, the name in CSV
  bool right = false;
  bool elastic = false;    // cells may be cut: never for numbers
  std::size_t least = 8;   // optional columns are omitted to keep this width
  bool optional = false;   // omitted first where the terminal is narrow
  bool verbatim = false;   // the name is shown as it is, not in capitals
  std::string brief = {};  // name where the terminal is narrow; empty: the same
};

/// Rows under named columns, printed as text or CSV. Keeps every row in memory:
/// unbounded data must be streamed instead.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// REQUIRES: a cell for each column.
  void AddRow(std::vector<Cell> row);

  /// Prints aligned columns, separated by two blanks. Escapes every cell. Where
  /// the terminal is too narrow, names become brief, empty columns are omitted,
  /// then the last optional ones, then elastic ones are cut, then the last
  /// columns are omitted; only the first may exceed the width. A note below the
  /// rows names omitted columns that are not empty.
  void PrintText(std::ostream& out, const TerminalMode& mode) const;
  /// Prints RFC 4180: a header line, lines that end with CR LF, in valid UTF-8.
  /// Escapes every field on a `terminal`.
  void PrintCsv(std::ostream& out, bool terminal = false) const;

  bool empty() const { return rows_.empty(); }

 private:
  // Returns the width of each column; 0: omitted.
  std::vector<std::size_t> Widths(std::size_t limit, bool brief) const;
  // Returns the width below which a column of `width` is not cut.
  std::size_t MinWidth(std::size_t column, std::size_t width) const;
  bool IsEmpty(std::size_t column) const;  // cells have no text, or "-"
  // Without a limit.
  std::vector<std::size_t> WholeWidths(bool brief) const;
  void PrintLine(std::ostream& out, const TerminalMode& mode,
                 const std::vector<std::size_t>& widths,
                 const std::vector<Cell>& cells) const;
  // Names the columns of width 0, if any, in lines of at most `mode.width`.
  void PrintOmitted(std::ostream& out, const TerminalMode& mode,
                    const std::vector<std::size_t>& widths,
                    const std::vector<Cell>& header) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

/// Returns a field in the format of RFC 4180, quoted if needed.
std::string CsvField(const std::string& text);

/// Returns the fields and CR LF; escaped for a `terminal`.
std::string CsvLine(const std::vector<std::string>& fields,
                    bool terminal = false);

}  // namespace dtrain
