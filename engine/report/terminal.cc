// Colours and tables for a terminal.
//
// A table for people fits the width of the terminal, and no number in it is
// cut: a wrong number would be believed. Optional columns are omitted from the
// right until the others have room, then texts (elastic columns) are cut, and
// if that is not enough further columns are omitted, but never the first one. A
// line below the table names what is missing, or it would be believed complete.
// Programs get CSV, which is never shortened.

#include "engine/report/terminal.h"

#include <algorithm>
#include <cassert>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include <sys/ioctl.h>
#include <unistd.h>

#include "engine/base/text.h"

namespace dtrain {
namespace {

bool IsSet(const Environment& environment, const char* name) {
  const char* value = environment(name);
  return value != nullptr && *value != '\0';
}

// True for "en_US.UTF-8", "C.utf8" and the like.
bool IsUtf8(const Environment& environment) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (!IsSet(environment, name)) continue;
    std::string locale = environment(name);
    std::ranges::transform(locale, locale.begin(), [](unsigned char c) {
      return static_cast<char>(std::tolower(c));
    });
    return locale.find("utf-8") != std::string::npos ||
           locale.find("utf8") != std::string::npos;
  }
  return false;
}

std::string_view Sequence(Tone tone) {
  switch (tone) {
    case Tone::kPlain:
      return "";
    case Tone::kGood:
      return "\x1b[32m";
    case Tone::kBad:
      return "\x1b[31m";
    case Tone::kWarning:
      return "\x1b[33m";
    case Tone::kDim:
      return "\x1b[2m";
    case Tone::kStrong:
      return "\x1b[1m";
  }
  return "";
}

}  // namespace

TerminalMode DecideMode(ColorChoice choice, bool terminal,
                        const Environment& environment) {
  const char* term = environment("TERM");
  const bool plain = !terminal || IsSet(environment, "NO_COLOR") ||
                     IsSet(environment, "CI") ||
                     (term != nullptr && std::string_view(term) == "dumb");
  const bool color = choice == ColorChoice::kAlways ||
                     (choice == ColorChoice::kAuto && !plain);
  return {.terminal = terminal,
          .color = color,
          .redraw = !plain,
          .utf8 = IsUtf8(environment)};
}

TerminalMode GetTerminalMode(int fd, ColorChoice choice) {
  TerminalMode mode = DecideMode(choice, isatty(fd) != 0,
                                 [](const char* name) { return getenv(name); });
  if (isatty(STDOUT_FILENO) == 0) mode.redraw = false;
  winsize size{};
  if (mode.terminal && ioctl(fd, TIOCGWINSZ, &size) == 0) {
    mode.width = size.ws_col;
    mode.height = size.ws_row;
  }
  return mode;
}

namespace {

// Returns the words of `text`, those in quotes as one.
std::vector<std::string> WordsToWrap(std::string_view text) {
  std::vector<std::string> words;
  std::vector<std::string> parts = Split(text, ' ');
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::string word = parts[i];
    const std::size_t begin = word.find_first_not_of("(");
    const char quote = begin == word.npos ? '\0' : word[begin];
    if ((quote == '\'' || quote == '`') &&
        word.find(quote, begin + 1) == word.npos) {
      std::string whole = word;
      std::size_t last = i;
      while (++last < parts.size()) {
        whole += " " + parts[last];
        if (parts[last].find(quote) != std::string::npos) break;
      }
      if (last < parts.size()) {
        word = whole;
        i = last;
      }
    }
    words.push_back(std::move(word));
  }
  return words;
}

}  // namespace

std::string WrapText(std::string_view text, std::size_t first,
                     std::size_t indent, std::size_t width) {
  if (width == 0) return std::string(text);
  std::string out;
  std::size_t used = first;
  bool begins = true;
  for (const std::string& word : WordsToWrap(text)) {
    const std::size_t columns = DisplayWidth(word);
    if (!begins && used + 1 + columns > width) {
      out += "\n" + std::string(indent, ' ');
      used = indent;
    } else if (!begins) {
      out += ' ';
      ++used;
    }
    out += word;
    used += columns;
    begins = false;
  }
  return out;
}

std::string_view Ellipsis(const TerminalMode& mode) {
  return mode.utf8 ? "…" : "...";
}

std::string Paint(const TerminalMode& mode, Tone tone, std::string_view text) {
  if (!mode.color || tone == Tone::kPlain) return std::string(text);
  return std::string(Sequence(tone)) + std::string(text) + "\x1b[0m";
}

namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kMinElastic = 8;  // columns of text that is cut
constexpr std::size_t kMaxOmittedNames = 8;

std::string UpperCase(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) {
    return static_cast<char>(c == '_' ? ' ' : std::toupper(c));
  });
  return text;
}

// Returns `text` padded to `width` columns, without colour on the padding.
std::string Padded(const TerminalMode& mode, const std::string& text,
                   std::size_t width, bool right, Tone tone) {
  const std::size_t used = DisplayWidth(text);
  const std::string pad(width > used ? width - used : 0, ' ');
  const std::string painted = Paint(mode, tone, text);
  return right ? pad + painted : painted + pad;
}

}  // namespace

void Table::AddRow(std::vector<Cell> row) {
  assert(row.size() == columns_.size());
  for (Cell& cell : row) {
    const std::string prefix =
        EscapeForTerminal(cell.text.substr(0, cell.prefix));
    cell.text = prefix + EscapeForTerminal(cell.text.substr(cell.prefix));
    cell.prefix = prefix.size();
  }
  rows_.push_back(std::move(row));
}

std::size_t Table::MinWidth(std::size_t column, std::size_t width) const {
  if (!columns_[column].elastic) return width;
  std::size_t numbers = 0;
  for (const auto& row : rows_) {
    const Cell& cell = row[column];
    if (cell.prefix == 0) continue;
    numbers = std::max(numbers, DisplayWidth(cell.text.substr(cell.prefix)));
  }
  const std::size_t least =
      numbers > 0 ? numbers : std::min(kMinElastic, columns_[column].least);
  return std::min(least, width);
}

namespace {

std::string ShownName(const Column& column, bool brief) {
  const std::string& name =
      brief && !column.brief.empty() ? column.brief : column.name;
  return column.verbatim ? EscapeForTerminal(name) : UpperCase(name);
}

// Columns of a line while its columns have the width `widths`; 0: omitted.
std::size_t LineWidth(const std::vector<std::size_t>& widths) {
  std::size_t total = 0;
  for (const std::size_t width : widths) total += width > 0 ? width + kGap : 0;
  return total > 0 ? total - kGap : 0;
}

// Takes columns away from the widest elastic one that exceeds `least`.
void Shrink(std::size_t limit, const std::vector<std::size_t>& least,
            std::vector<std::size_t>& widths) {
  for (std::size_t total = LineWidth(widths); total > limit; --total) {
    std::size_t* widest = nullptr;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const bool gives = widths[i] > least[i];
      if (gives && (widest == nullptr || widths[i] > *widest)) {
        widest = &widths[i];
      }
    }
    if (widest == nullptr) return;
    --*widest;
  }
}

// Returns the text of a cell in `width` columns.
std::string Fitted(const Cell& cell, std::size_t width,
                   std::string_view ellipsis) {
  if (DisplayWidth(cell.text) <= width) return cell.text;
  const std::string kept = cell.text.substr(cell.prefix);
  if (cell.prefix > 0 && DisplayWidth(kept) <= width) {
    // The blank before a number is part of the name's cut: "val_a… 0.93".
    const std::size_t room = width - DisplayWidth(kept);
    // At least a character, the sign of a cut and the blank.
    if (room < DisplayWidth(ellipsis) + 2) return kept;
    return Truncate(cell.text.substr(0, cell.prefix), room - 1, ellipsis) +
           " " + kept;
  }
  return Truncate(cell.text, width, ellipsis);
}

}  // namespace

bool Table::IsEmpty(std::size_t column) const {
  return std::ranges::all_of(rows_, [&](const auto& row) {
    return row[column].text.empty() || row[column].text == "-";
  });
}

std::vector<std::size_t> Table::WholeWidths(bool brief) const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) {
    widths.push_back(DisplayWidth(ShownName(column, brief)));
  }
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], DisplayWidth(row[i].text));
    }
  }
  return widths;
}

std::vector<std::size_t> Table::Widths(std::size_t limit, bool brief) const {
  std::vector<std::size_t> widths = WholeWidths(brief);
  if (limit == 0 || LineWidth(widths) <= limit) return widths;
  for (std::size_t i = widths.size(); i-- > 1;) {
    if (LineWidth(widths) > limit && IsEmpty(i)) widths[i] = 0;
  }
  std::vector<std::size_t> natural;
  std::vector<std::size_t> least;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    least.push_back(widths[i] == 0 ? 0 : MinWidth(i, widths[i]));
    natural.push_back(std::max(
        least[i], columns_[i].elastic ? std::min(widths[i], columns_[i].least)
                                      : widths[i]));
  }
  // Omits columns from the right, but never the first one, until the others
  // have room at their `needed` widths.
  const auto omit = [&](const std::vector<std::size_t>& needed,
                        bool optional_only) {
    for (std::size_t i = widths.size(); i-- > 1 && LineWidth(needed) > limit;) {
      if (optional_only && !columns_[i].optional) continue;
      widths[i] = natural[i] = least[i] = 0;
    }
  };
  omit(natural, /*optional_only=*/true);
  omit(least, /*optional_only=*/false);
  Shrink(limit, natural, widths);
  Shrink(limit, least, widths);
  return widths;
}

void Table::PrintLine(std::ostream& out, const TerminalMode& mode,
                      const std::vector<std::size_t>& widths,
                      const std::vector<Cell>& cells) const {
  std::string line;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (widths[i] == 0) continue;
    if (!line.empty()) line.append(kGap, ' ');
    line += Padded(mode, Fitted(cells[i], widths[i], Ellipsis(mode)), widths[i],
                   columns_[i].right, cells[i].tone);
  }
  // Empty cells at the end leave no blanks.
  line.erase(line.find_last_not_of(' ') + 1);
  out << line << '\n';
}

void Table::PrintText(std::ostream& out, const TerminalMode& mode) const {
  const bool brief =
      mode.width > 0 && LineWidth(WholeWidths(/*brief=*/false)) > mode.width;
  const std::vector<std::size_t> widths = Widths(mode.width, brief);
  std::vector<Cell> header;
  for (const Column& column : columns_) {
    const std::string name = ShownName(column, brief);
    header.emplace_back(name, name, Tone::kStrong);
  }
  PrintLine(out, mode, widths, header);
  for (const auto& row : rows_) PrintLine(out, mode, widths, row);
  PrintOmitted(out, mode, widths, header);
}

void Table::PrintOmitted(std::ostream& out, const TerminalMode& mode,
                         const std::vector<std::size_t>& widths,
                         const std::vector<Cell>& header) const {
  std::vector<std::string> names;
  std::size_t more = 0;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (widths[i] > 0 || IsEmpty(i)) continue;
    if (names.size() < kMaxOmittedNames) {
      names.push_back(header[i].text);
    } else {
      ++more;
    }
  }
  if (names.empty()) return;
  std::string text = "(omitted: " + Join(names, ", ");
  if (more > 0) text += " and " + std::to_string(more) + " more";
  text += "; use a wider terminal or --json)";
  for (const std::string& line :
       Split(WrapText(text, 0, 0, mode.width), '\n')) {
    out << Paint(mode, Tone::kDim, Truncate(line, mode.width, Ellipsis(mode)))
        << '\n';
  }
}

void Table::PrintCsv(std::ostream& out, bool terminal) const {
  std::vector<std::string> fields;
  for (const Column& column : columns_) fields.push_back(column.name);
  out << CsvLine(fields, terminal);
  for (const auto& row : rows_) {
    fields.clear();
    for (const Cell& cell : row) fields.push_back(cell.raw);
    out << CsvLine(fields, terminal);
  }
}

namespace {

// True for a text that a spreadsheet would compute. Numbers stay numbers.
bool IsFormula(std::string_view text) {
  if (text.empty()) return false;
  if (text.front() != '-') {
    return std::string_view("=+@\t\r").find(text.front()) != text.npos;
  }
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const bool is_number = error != std::errc::invalid_argument && rest == end;
  return !is_number && text != "-";
}

}  // namespace

std::string CsvField(const std::string& text) {
  std::string valid = ToValidUtf8(text);
  if (IsFormula(valid)) valid.insert(0, 1, '\'');
  if (valid.find_first_of("\",\r\n") == std::string::npos) return valid;
  std::string quoted = "\"";
  for (const char c : valid) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

std::string CsvLine(const std::vector<std::string>& fields, bool terminal) {
  std::string line;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) line += ',';
    line += CsvField(terminal ? EscapeForTerminal(fields[i]) : fields[i]);
  }
  return line + "\r\n";
}

}  // namespace dtrain
