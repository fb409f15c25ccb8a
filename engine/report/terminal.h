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

/// What colours mean here; never the only carrier of a meaning.
enum class Tone { kPlain, kGood, kBad, kWarning, kDim, kStrong };

/// How to write to one stream.
struct TerminalMode {
  bool terminal = false;  // somebody looks at it
  bool color = false;
  bool redraw = false;    // lines may be drawn again in place
  std::size_t width = 0;  // columns; 0: no limit
  std::size_t height = 0;
};

/// Reads an environment variable; null if it is not set.
using Environment = std::function<const char*(const char* name)>;

/// The rule of CONTRACT: no colour or redraw where `terminal` is false or
/// NO_COLOR, CI or TERM=dumb are set; a colour choice overrides that.
TerminalMode DecideMode(ColorChoice choice, bool terminal,
                        const Environment& environment);

/// The mode of this process's descriptor `fd`, its size included. Redrawing
/// also wants stdout to be a terminal.
TerminalMode ModeOf(int fd, ColorChoice choice);

/// `text` in the colour of `tone`, if there are colours.
std::string Paint(const TerminalMode& mode, Tone tone, std::string_view text);

/// One value of a table: what people read, and what programs read.
struct Cell {
  Cell(std::string text) : text(std::move(text)), raw(this->text) {}
  Cell(const char* text) : Cell(std::string(text)) {}
  Cell(std::string text, std::string raw, Tone tone = Tone::kPlain)
      : text(std::move(text)), raw(std::move(raw)), tone(tone) {}

  std::string text;
  std::string raw;
  Tone tone = Tone::kPlain;
};

struct Column {
  std::string name;  // snake_case, the name in CSV
  bool right = false;
  bool elastic = false;   // gives way where the terminal is too narrow
  std::size_t least = 8;  // columns that it keeps, if elastic
  bool optional = false;  // not for people where it is narrower still
};

/// Rows under named columns, printed for people or as CSV. Keeps every row:
/// what has no bound is streamed instead.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// REQUIRES: a cell for each column.
  void AddRow(std::vector<Cell> row);

  /// Aligned columns, two blanks between them. Every cell is escaped; where
  /// the terminal has a width, no line is longer: the last optional columns
  /// are left out first, then elastic ones are cut.
  void PrintText(std::ostream& out, const TerminalMode& mode) const;
  /// RFC 4180: a header line, lines that end with CR LF, in valid UTF-8. On a
  /// `terminal` every field is escaped.
  void PrintCsv(std::ostream& out, bool terminal = false) const;

  bool empty() const { return rows_.empty(); }

 private:
  // How wide each column is; 0: left out.
  std::vector<std::size_t> Widths(std::size_t limit) const;
  void LeaveOut(std::size_t limit, std::vector<std::size_t>& widths) const;
  void PrintLine(std::ostream& out, const TerminalMode& mode,
                 const std::vector<std::size_t>& widths,
                 const std::vector<Cell>& cells) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

/// One field as RFC 4180 has it, in quotes if it needs them.
std::string CsvField(const std::string& text);

/// Fields and CR LF; for a `terminal` escaped.
std::string CsvLine(const std::vector<std::string>& fields,
                    bool terminal = false);

}  // namespace dtrain
