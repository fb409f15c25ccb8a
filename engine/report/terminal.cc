// Colours and tables for a terminal.
//
// A table for people fits the width of the terminal: optional columns are left
// out from the right until the minimum widths fit, then the widest elastic
// column shrinks step by step. Programs get CSV, which is never shortened.

#include "engine/report/terminal.h"

#include <algorithm>
#include <cassert>
#include <cctype>
#include <cstdlib>

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

TerminalMode ModeOf(int fd, ColorChoice choice) {
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

std::string Paint(const TerminalMode& mode, Tone tone, std::string_view text) {
  if (!mode.color || tone == Tone::kPlain) return std::string(text);
  return std::string(Sequence(tone)) + std::string(text) + "\x1b[0m";
}

namespace {

constexpr std::size_t kGap = 2;

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
  for (Cell& cell : row) cell.text = EscapeForTerminal(cell.text);
  rows_.push_back(std::move(row));
}

void Table::LeaveOut(std::size_t limit,
                     std::vector<std::size_t>& widths) const {
  const auto least = [&](std::size_t i) {
    return columns_[i].elastic ? std::min(widths[i], columns_[i].least)
                               : widths[i];
  };
  std::size_t total = 0;
  for (std::size_t i = 0; i < widths.size(); ++i) total += least(i) + kGap;
  for (std::size_t i = widths.size(); i-- > 0 && total > limit + kGap;) {
    if (!columns_[i].optional) continue;
    total -= least(i) + kGap;
    widths[i] = 0;
  }
}

std::vector<std::size_t> Table::Widths(std::size_t limit) const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) {
    widths.push_back(DisplayWidth(EscapeForTerminal(column.name)));
  }
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], DisplayWidth(row[i].text));
    }
  }
  if (limit == 0) return widths;
  LeaveOut(limit, widths);
  std::size_t total = 0;
  for (const std::size_t width : widths) total += width > 0 ? width + kGap : 0;
  while (total > limit + kGap) {
    std::size_t* widest = nullptr;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const bool gives = columns_[i].elastic && widths[i] > columns_[i].least;
      if (gives && (widest == nullptr || widths[i] > *widest)) {
        widest = &widths[i];
      }
    }
    if (widest == nullptr) break;
    --*widest;
    --total;
  }
  return widths;
}

void Table::PrintLine(std::ostream& out, const TerminalMode& mode,
                      const std::vector<std::size_t>& widths,
                      const std::vector<Cell>& cells) const {
  std::string line;
  std::size_t left = mode.width == 0 ? std::string::npos : mode.width;
  for (std::size_t i = 0; i < columns_.size() && left > 0; ++i) {
    if (widths[i] == 0) continue;
    const std::size_t gap = line.empty() ? 0 : std::min(kGap, left);
    line.append(gap, ' ');
    left -= left == std::string::npos ? 0 : gap;
    const std::size_t width = std::min(widths[i], left);
    line += Padded(mode, Truncate(cells[i].text, width), width,
                   columns_[i].right, cells[i].tone);
    left -= left == std::string::npos ? 0 : width;
  }
  // Empty cells at the end leave no blanks.
  line.erase(line.find_last_not_of(' ') + 1);
  out << line << '\n';
}

void Table::PrintText(std::ostream& out, const TerminalMode& mode) const {
  const std::vector<std::size_t> widths = Widths(mode.width);
  std::vector<Cell> header;
  for (const Column& column : columns_) {
    const std::string name = column.verbatim ? EscapeForTerminal(column.name)
                                             : UpperCase(column.name);
    header.emplace_back(name, name, Tone::kStrong);
  }
  PrintLine(out, mode, widths, header);
  for (const auto& row : rows_) PrintLine(out, mode, widths, row);
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

std::string CsvField(const std::string& text) {
  const std::string valid = ToValidUtf8(text);
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
