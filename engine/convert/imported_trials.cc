// Results of other programs as trials.
//
// A table is read row by row. In CSV every cell is a text, so the type of a
// hyperparameter is that of all its cells: numbers with a fraction in one of
// them are fractions in all, and one text makes all of them texts. Numbers are
// what JSON has as numbers: 010, 0x10 and 1_000 are texts. What could silently
// become another value is refused: a decimal comma, a number that no double
// holds, NaN as a hyperparameter. A metric may be NaN or infinite, as in a
// trial of dtrain.
//
// Messages have the form FILE:LINE: what; what to do.

#include "engine/convert/imported_trials.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/python_json.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/config/schema.h"

namespace dtrain {
namespace {

using TableCell = nlohmann::json;

constexpr std::size_t kMaxTableColumns = 1000;
constexpr std::size_t kMaxTableCells = 5'000'000;
constexpr std::size_t kMaxTrials = 100'000;
constexpr std::size_t kMaxChoices = 1000;
constexpr std::size_t kMaxFieldBytes = std::size_t{1} << 20;
constexpr int kMaxObjectLevels = 8;

[[noreturn]] void RefuseResults(const std::string& file, std::int64_t line,
                                const std::string& what) {
  throw Error(ErrorKind::kUsage,
              file + (line > 0 ? ":" + std::to_string(line) : "") + ": " +
                  what + "; nothing was imported");
}

TableCell Absent() { return TableCell(TableCell::value_t::discarded); }

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return lower;
}

// A cell as a message shows it.
std::string ShowCell(const TableCell& cell) {
  const std::string text =
      cell.is_string()
          ? cell.get<std::string>()
          : cell.dump(-1, ' ', false, TableCell::error_handler_t::replace);
  return "'" + Truncate(EscapeForTerminal(text), 40) + "'";
}

// --- Numbers ---

struct CellNumber {
  enum class Kind {
    kNumber,   // finite
    kSpecial,  // NaN or infinite
    kTooLarge,
    kComma,
    kNone,
  };
  Kind kind = Kind::kNone;
  double value = 0;
  std::optional<std::int64_t> integer = {};  // written as one
};

// True if a text that std::from_chars reads as a number is one in JSON, too: it
// has no leading zero, and digits on both sides of a point.
bool IsJsonNumber(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const auto has_digit = [&](std::size_t i) {
    return i < text.size() && text[i] >= '0' && text[i] <= '9';
  };
  const std::size_t point = text.find('.');
  return has_digit(0) && !(text[0] == '0' && has_digit(1)) &&
         (point == text.npos || has_digit(point + 1));
}

// True for a text that other programs may read as a number: 010, 0x10, 1_000.
bool ResemblesNumber(std::string text) {
  std::erase_if(text, [](char c) { return c == '_' || c == ' ' || c == '+'; });
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && (rest == end || *rest == 'x');
}

CellNumber ReadTextNumber(std::string_view text) {
  using enum CellNumber::Kind;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::string lower = LowerCase(text);
  if (lower.starts_with('+')) lower.erase(0, 1);
  if (lower == "nan") return {kSpecial, std::nan("")};
  if (lower == "inf" || lower == "infinity") return {kSpecial, kInfinity};
  if (lower == "-inf" || lower == "-infinity") return {kSpecial, -kInfinity};
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  double value = 0;
  const auto [rest, error] = std::from_chars(begin, end, value);
  const bool is_json = rest == end && IsJsonNumber(text);
  if (is_json && error == std::errc::result_out_of_range) return {kTooLarge};
  if (is_json && error == std::errc()) {
    CellNumber number{kNumber, value};
    std::int64_t integer = 0;
    const auto [stop, why] = std::from_chars(begin, end, integer);
    if (why == std::errc() && stop == end) number.integer = integer;
    const bool is_whole = lower.find_first_of(".e") == lower.npos;
    if (is_whole && !number.integer) return {kTooLarge};
    return number;
  }
  if (std::ranges::count(text, ',') == 1) {
    std::string point(text);
    point[point.find(',')] = '.';
    if (ParseFinite(point)) return {kComma};
  }
  return {};
}

CellNumber ReadNumber(const TableCell& cell) {
  using enum CellNumber::Kind;
  if (cell.is_string()) {
    return ReadTextNumber(cell.get_ref<const std::string&>());
  }
  if (!cell.is_number()) return {};
  CellNumber number{kNumber, cell.get<double>()};
  if (cell.is_number_unsigned() &&
      cell.get<std::uint64_t>() >
          static_cast<std::uint64_t>(
              std::numeric_limits<std::int64_t>::max())) {
    return {kTooLarge};
  }
  if (cell.is_number_integer()) number.integer = cell.get<std::int64_t>();
  return number;
}

// Says what is wrong with a cell that has to be a number, and what to do.
std::string DescribeNumber(const TableCell& cell, CellNumber::Kind kind) {
  switch (kind) {
    case CellNumber::Kind::kTooLarge:
      return ShowCell(cell) + " is out of the range of numbers";
    case CellNumber::Kind::kComma:
      return ShowCell(cell) +
             " has a decimal comma; write numbers with a point";
    case CellNumber::Kind::kSpecial:
      return ShowCell(cell) +
             " is not a finite number; leave it empty if the trial has none";
    case CellNumber::Kind::kNumber:
    case CellNumber::Kind::kNone:
      break;
  }
  return ShowCell(cell) + " is not a number; " +
         (cell.is_string() && ResemblesNumber(cell)
              ? "write it without spaces, '+', '_' and leading zeros"
              : "leave it empty if there is no value");
}

// --- Tables ---

// Reads the rows of a CSV text.
class CsvRows {
 public:
  CsvRows(const std::string& file, std::string_view text)
      : file_(file), text_(text) {
    // The separator that the header has most of, outside of quotes.
    std::array<std::size_t, 3> counts{};
    constexpr std::string_view kSeparators = ",;\t";
    bool quoted = false;
    for (const char c : text_) {
      if (c == '"') quoted = !quoted;
      if (!quoted && (c == '\n' || c == '\r')) break;
      const std::size_t which = kSeparators.find(c);
      if (!quoted && which != kSeparators.npos) ++counts[which];
    }
    const auto most = std::ranges::max_element(counts);
    separator_ = kSeparators[static_cast<std::size_t>(most - counts.begin())];
  }

  // The line that the last row begins in.
  std::int64_t line() const { return row_line_; }

  // Reads the next row; blank lines are skipped. False at the end.
  bool Next(std::vector<std::string>& fields) {
    while (at_ < text_.size() && IsLineEnd(text_[at_])) EndLine();
    if (at_ >= text_.size()) return false;
    row_line_ = line_;
    fields.clear();
    while (true) {
      if (fields.size() == kMaxTableColumns) {
        RefuseResults(file_, row_line_,
                      "more than " + std::to_string(kMaxTableColumns) +
                          " columns; leave out those that are neither "
                          "hyperparameters nor metrics");
      }
      fields.push_back(ReadField());
      if (at_ < text_.size() && text_[at_] == separator_) {
        ++at_;
        continue;
      }
      if (at_ < text_.size()) EndLine();
      return true;
    }
  }

 private:
  static bool IsLineEnd(char c) { return c == '\n' || c == '\r'; }

  void EndLine() {
    if (text_.substr(at_).starts_with("\r\n")) ++at_;
    ++at_;
    ++line_;
  }

  std::string ReadField() {
    if (at_ == text_.size() || text_[at_] != '"') {
      const std::size_t start = at_;
      while (at_ < text_.size() && text_[at_] != separator_ &&
             !IsLineEnd(text_[at_])) {
        ++at_;
      }
      RequireShort(at_ - start);
      return std::string(text_.substr(start, at_ - start));
    }
    std::string field;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"') {
        ++at_;
        if (at_ == text_.size() || text_[at_] == separator_ ||
            IsLineEnd(text_[at_])) {
          return field;
        }
        if (text_[at_] != '"') {
          RefuseResults(file_, row_line_,
                        "text follows the closing quote of a field; write a "
                        "quote within a field twice");
        }
      }
      if (text_[at_] == '\n') ++line_;
      field += text_[at_];
      RequireShort(field.size());
    }
    RefuseResults(file_, row_line_,
                  "the quoted field that begins in this row has no end; close "
                  "it with a quote");
  }

  void RequireShort(std::size_t size) const {
    if (size <= kMaxFieldBytes) return;
    RefuseResults(file_, row_line_,
                  "a field is longer than 1 MiB; is a quote missing?");
  }

  const std::string& file_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::int64_t line_ = 1;
  std::int64_t row_line_ = 1;
  char separator_ = ',';
};

struct TableRow {
  std::int64_t line = 0;
  std::vector<TableCell>
      cells;  // of the first columns; discarded ones are absent
};

// Reads a table of either form row by row.
class TableRows {
 public:
  explicit TableRows(const TableText& table)
      : table_(table), text_(CheckText(table)), csv_(table.file, text_) {
    if (table.json_lines) return;
    if (!csv_.Next(columns_)) RefuseEmpty();
    for (std::string& name : columns_) name = std::string(Trim(name));
    header_line_ = csv_.line();
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i].empty()) continue;  // see TrialTable::IsRowIndex
      const auto first = std::ranges::find(columns_, columns_[i]);
      const auto before = static_cast<std::size_t>(first - columns_.begin());
      if (before < i) {
        RefuseResults(table_.file, header_line_,
                      "columns " + std::to_string(before + 1) + " and " +
                          std::to_string(i + 1) + " are both " +
                          ShowCell(columns_[i]) + "; rename one of them");
      }
    }
  }

  // In JSON lines those of the rows so far.
  const std::vector<std::string>& columns() const { return columns_; }
  std::int64_t header_line() const { return header_line_; }  // 0: JSON lines

  bool Next(TableRow& row) {
    return table_.json_lines ? NextObject(row) : NextFields(row);
  }

  [[noreturn]] void RefuseEmpty() const {
    RefuseResults(table_.file, 0,
                  columns_.empty()
                      ? "is empty; give a table with a trial a row"
                      : "has no row below its header; give a trial a row");
  }

 private:
  static std::string_view CheckText(const TableText& table) {
    std::string_view text = table.text;
    if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
      RefuseResults(table.file, 0, "is UTF-16; save it as UTF-8");
    }
    constexpr std::string_view kMark = "\xEF\xBB\xBF";
    if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
    const bool is_text =
        IsValidUtf8(text) && text.find('\0') == std::string_view::npos;
    if (is_text) return text;
    std::int64_t line = 0;
    for (const std::string& one : Split(text, '\n')) {
      ++line;
      if (one.find('\0') != one.npos) {
        RefuseResults(table.file, line,
                      "has a NUL byte, so it is no text; give a CSV, or an "
                      "object of JSON a line");
      }
      if (!IsValidUtf8(one)) {
        RefuseResults(table.file, line, "is not UTF-8; save it as UTF-8");
      }
    }
    return text;
  }

  bool NextFields(TableRow& row) {
    if (!csv_.Next(fields_)) return false;
    row.line = csv_.line();
    if (fields_.size() != columns_.size()) {
      RefuseResults(table_.file, row.line,
                    CountText(std::ssize(fields_), "field") +
                        ", but the header has " +
                        std::to_string(columns_.size()) +
                        "; quote fields that contain a separator");
    }
    row.cells.clear();
    for (std::string& field : fields_) {
      // Undoes what protects spreadsheets, see CsvField.
      const bool is_protected =
          field.size() > 1 && field[0] == '\'' &&
          std::string_view("=+-@\t\r").find(field[1]) != std::string::npos;
      if (is_protected) field.erase(0, 1);
      row.cells.push_back(field.empty() ? Absent()
                                        : TableCell(std::move(field)));
    }
    return true;
  }

  bool NextObject(TableRow& row) {
    std::string_view line;
    do {
      if (at_ >= text_.size()) return false;
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      line = text_.substr(at_, end - at_);
      if (line.ends_with('\r')) line.remove_suffix(1);
      at_ = end + 1;
      ++line_;
    } while (Trim(line).empty());
    row.line = line_;
    row.cells.assign(columns_.size(), Absent());
    for (auto& [name, value] : FlattenNames(ParseObject(line))) {
      const auto [found, is_new] = places_.try_emplace(name, columns_.size());
      if (is_new) columns_.push_back(name);
      if (columns_.size() > kMaxTableColumns) {
        RefuseResults(table_.file, line_,
                      "more than " + std::to_string(kMaxTableColumns) +
                          " names; leave out those that are neither "
                          "hyperparameters nor metrics");
      }
      row.cells.resize(columns_.size(), Absent());
      const bool is_empty = value.is_object();
      if (!is_empty) row.cells[found->second] = std::move(value);
    }
    return true;
  }

  TableCell ParseObject(std::string_view line) {
    std::string problem;
    std::vector<std::set<std::string>> names;
    const auto check = [&](int, TableCell::parse_event_t event,
                           TableCell& parsed) {
      if (event == TableCell::parse_event_t::object_start) names.emplace_back();
      if (event == TableCell::parse_event_t::object_end) names.pop_back();
      if (event == TableCell::parse_event_t::key && problem.empty() &&
          !names.back().insert(parsed.get<std::string>()).second) {
        problem = "has " + ShowCell(parsed) + " twice; remove one of them";
      }
      return true;
    };
    TableCell object;
    try {
      object = TableCell::parse(QuoteNonFinite(line), check);
    } catch (const TableCell::exception& error) {
      const bool is_number = error.id == 406;
      RefuseResults(table_.file, line_,
                    is_number ? "a number is out of the range of numbers"
                              : "is not JSON; write one object a line");
    }
    if (!object.is_object()) {
      problem =
          "is not an object; write one object a line, such as "
          "{\"lr\": 0.1, \"loss\": 0.5}";
    } else if (NestsDeeperThan(object, kMaxObjectLevels)) {
      problem = "nests more than " + std::to_string(kMaxObjectLevels) +
                " levels deep; flatten it";
    }
    if (!problem.empty()) RefuseResults(table_.file, line_, problem);
    return object;
  }

  const TableText& table_;
  std::string_view text_;
  CsvRows csv_;
  std::vector<std::string> columns_;
  std::int64_t header_line_ = 0;
  std::vector<std::string> fields_;
  std::map<std::string, std::size_t> places_;  // of JSON lines
  std::size_t at_ = 0;
  std::int64_t line_ = 0;
};

// --- ColumnRoles ---

enum class Role {
  kId,
  kState,
  kReason,
  kStep,
  kEpoch,
  kStarted,
  kEnded,
  kSeconds,
  kSeed,
  kRung,
  kKind,
  kTime,
  kMetricName,
  kMetricValue,
  kHparam,
  kMetric,
  kIgnored,
};

struct RoleWord {
  std::string_view word;
  Role role;
};

// Names of columns in lower case, those of a role in order of preference.
constexpr std::array kRoleWords = {
    RoleWord{"trial", Role::kId},
    RoleWord{"trial_id", Role::kId},
    RoleWord{"id", Role::kId},
    RoleWord{"number", Role::kId},
    RoleWord{"run_id", Role::kId},
    RoleWord{"run", Role::kId},
    RoleWord{"state", Role::kState},
    RoleWord{"status", Role::kState},
    RoleWord{"reason", Role::kReason},
    RoleWord{"batches", Role::kStep},
    RoleWord{"step", Role::kStep},
    RoleWord{"_step", Role::kStep},
    RoleWord{"global_step", Role::kStep},
    RoleWord{"training_iteration", Role::kStep},
    RoleWord{"iteration", Role::kStep},
    RoleWord{"epoch", Role::kEpoch},
    RoleWord{"epochs", Role::kEpoch},
    RoleWord{"started", Role::kStarted},
    RoleWord{"datetime_start", Role::kStarted},
    RoleWord{"start_time", Role::kStarted},
    RoleWord{"ended", Role::kEnded},
    RoleWord{"datetime_complete", Role::kEnded},
    RoleWord{"end_time", Role::kEnded},
    RoleWord{"duration", Role::kSeconds},
    RoleWord{"seconds", Role::kSeconds},
    RoleWord{"runtime", Role::kSeconds},
    RoleWord{"_runtime", Role::kSeconds},
    RoleWord{"time_total_s", Role::kSeconds},
    RoleWord{"seed", Role::kSeed},
    RoleWord{"rung", Role::kRung},
    RoleWord{"kind", Role::kKind},
    RoleWord{"time", Role::kTime},
    RoleWord{"created", Role::kIgnored},
    RoleWord{"length", Role::kIgnored},
    RoleWord{"unit", Role::kIgnored},
    RoleWord{"run", Role::kIgnored},
    RoleWord{"runs", Role::kIgnored},
    RoleWord{"restarts", Role::kIgnored},
    RoleWord{"preemptions", Role::kIgnored},
    RoleWord{"pid", Role::kIgnored},
    RoleWord{"slots", Role::kIgnored},
    RoleWord{"waiting", Role::kIgnored},
    RoleWord{"checkpoint", Role::kIgnored},
    RoleWord{"superseded", Role::kIgnored},
    RoleWord{"point", Role::kIgnored},
    RoleWord{"repeat", Role::kIgnored},
    RoleWord{"name", Role::kIgnored},
};

constexpr std::array<std::string_view, 7> kHparamPrefixes = {
    "hp.",     "hparams.", "config.",         "config/",
    "params_", "params.",  "hyperparameters."};

// Returns the name of the hyperparameter in a column, if it is one.
std::optional<std::string> FindHparam(const std::string& column,
                                      const ColumnOptions& options) {
  const bool is_chosen =
      std::ranges::find(options.hparams, column) != options.hparams.end();
  if (!options.hparams.empty() && !is_chosen) return std::nullopt;
  for (const std::string_view prefix : kHparamPrefixes) {
    if (column.starts_with(prefix)) return column.substr(prefix.size());
  }
  if (is_chosen) return column;
  return std::nullopt;
}

// The meaning of each column of a table.
class ColumnRoles {
 public:
  ColumnRoles(const std::vector<std::string>& names,
              const ColumnOptions& options, const std::string& file)
      : names_(names), file_(file) {
    for (const std::string& name : names) {
      const auto hparam = FindHparam(name, options);
      const bool is_hparam = hparam && name != options.metric;
      const bool is_left_out = !hparam && FindHparam(name, {});
      const auto same = std::ranges::find(hparams_, hparam.value_or(""));
      if (is_hparam && !hparam->empty() && same != hparams_.end()) {
        RefuseResults(
            file, 0,
            "columns " +
                ShowCell(
                    names[static_cast<std::size_t>(same - hparams_.begin())]) +
                " and " + ShowCell(name) +
                " are one hyperparameter; remove one of them");
      }
      roles_.push_back(is_hparam                               ? Role::kHparam
                       : is_left_out && name != options.metric ? Role::kIgnored
                                                               : Role::kMetric);
      hparams_.push_back(is_hparam ? *hparam : "");
    }
    for (const std::string& name : options.hparams) {
      if (std::ranges::find(names, name) != names.end()) continue;
      RefuseResults(
          file, 0,
          "--hp: there is no column '" + name + "'" + DidYouMean(name, names));
    }
    std::set<Role> taken;
    for (const auto& [word, role] : kRoleWords) {
      for (std::size_t i = 0; i < names.size(); ++i) {
        const bool is_free = roles_[i] == Role::kMetric &&
                             names[i] != options.metric &&
                             LowerCase(names[i]) == word;
        if (!is_free) continue;
        // Of several columns of a role the others have no meaning.
        const bool is_first = taken.insert(role).second;
        roles_[i] = is_first ? role : Role::kIgnored;
      }
    }
    const auto name = std::ranges::find(names, "name");
    const auto value = std::ranges::find(names, "value");
    is_long_ = Find(Role::kId) && Find(Role::kStep) && name != names.end() &&
               value != names.end() && options.metric != "value";
    if (is_long_) {
      roles_[static_cast<std::size_t>(name - names.begin())] =
          Role::kMetricName;
      roles_[static_cast<std::size_t>(value - names.begin())] =
          Role::kMetricValue;
    }
    // The tables of `dtrain export`: values are in a table of their own.
    is_export_ = Find(Role::kId) && Find(Role::kRung) && Find(Role::kState);
    for (std::size_t i = 0; is_export_ && i < names.size(); ++i) {
      const bool is_best = names[i].starts_with("best") ||
                           names[i].starts_with("latest") ||
                           names[i].starts_with("search.");
      if (is_best && roles_[i] == Role::kMetric && names[i] != options.metric) {
        roles_[i] = Role::kIgnored;
      }
    }
  }

  // Returns the cell of a role, or an absent one.
  TableCell Get(const TableRow& row, Role role) const {
    const auto at = Find(role);
    return at && *at < row.cells.size() ? row.cells[*at] : Absent();
  }
  std::optional<std::size_t> Find(Role role) const {
    const auto found = std::ranges::find(roles_, role);
    if (found == roles_.end()) return std::nullopt;
    return static_cast<std::size_t>(found - roles_.begin());
  }
  Role role(std::size_t i) const { return roles_[i]; }
  void Ignore(std::size_t i) { roles_[i] = Role::kIgnored; }
  const std::string& name(std::size_t i) const { return names_[i]; }
  const std::string& hparam(std::size_t i) const { return hparams_[i]; }
  std::size_t size() const { return names_.size(); }
  bool is_long() const { return is_long_; }
  bool is_export() const { return is_export_; }

  // Returns an integer from 0 on; nothing if the cell is absent.
  std::optional<std::int64_t> GetCount(const TableRow& row, Role role) const {
    const TableCell cell = Get(row, role);
    if (cell.is_discarded() || cell.is_null()) return std::nullopt;
    const CellNumber number = ReadNumber(cell);
    const bool is_count = number.kind == CellNumber::Kind::kNumber &&
                          number.value >= 0 &&
                          number.value <= static_cast<double>(kMaxCount) &&
                          number.value == std::floor(number.value);
    if (is_count) return static_cast<std::int64_t>(number.value);
    RefuseResults(file_, row.line,
                  names_[*Find(role)] + ": " + ShowCell(cell) +
                      " is not an integer from 0 to 10^15; write the number "
                      "of the step");
  }

  std::optional<Timestamp> GetTime(const TableRow& row, Role role) const {
    const TableCell cell = Get(row, role);
    if (cell.is_discarded() || cell.is_null()) return std::nullopt;
    if (cell.is_string()) {
      if (auto time = ParseTimestamp(cell.get<std::string>())) return time;
    }
    // Seconds since 1970, of this century.
    const CellNumber number = ReadNumber(cell);
    if (number.kind == CellNumber::Kind::kNumber && number.value > 9e8 &&
        number.value < 4e9) {
      return std::chrono::duration_cast<Timestamp>(
          std::chrono::duration<double>(number.value));
    }
    RefuseResults(file_, row.line,
                  names_[*Find(role)] + ": " + ShowCell(cell) +
                      " is not a time; write it as 2026-11-21T07:35:44Z, or "
                      "remove the column");
  }

  // Returns the step and the epoch of the values of a row.
  std::pair<std::int64_t, double> GetStep(const TableRow& row) const {
    const TableCell cell = Get(row, Role::kEpoch);
    const CellNumber epoch = ReadNumber(cell);
    const bool has_epoch =
        epoch.kind == CellNumber::Kind::kNumber && epoch.value >= 0;
    if (const auto step = GetCount(row, Role::kStep)) {
      return {*step, has_epoch ? epoch.value : 0};
    }
    if (Find(Role::kStep)) {
      RefuseResults(file_, row.line,
                    names_[*Find(Role::kStep)] +
                        " is empty; write the number of the step");
    }
    if (has_epoch) return {*GetCount(row, Role::kEpoch), epoch.value};
    if (Find(Role::kEpoch)) {
      RefuseResults(file_, row.line,
                    names_[*Find(Role::kEpoch)] + ": " + ShowCell(cell) +
                        " is not an epoch; write a number from 0 on, or remove "
                        "the column");
    }
    return {1, 0};
  }

 private:
  const std::vector<std::string> names_;
  const std::string file_;
  std::vector<Role> roles_;
  std::vector<std::string> hparams_;
  bool is_long_ = false;
  bool is_export_ = false;
};

std::string CellText(const TableCell& cell) {
  if (cell.is_discarded() || cell.is_null()) return "";
  return cell.is_string() ? cell.get<std::string>() : cell.dump();
}

// Returns the value of a metric in a cell; nothing if it is absent.
std::optional<double> ReadMetricCell(const std::string& file, std::int64_t line,
                                     const std::string& column,
                                     const TableCell& cell) {
  if (cell.is_discarded() || cell.is_null()) return std::nullopt;
  const CellNumber number = ReadNumber(cell);
  if (number.kind == CellNumber::Kind::kNumber ||
      number.kind == CellNumber::Kind::kSpecial) {
    return number.value;
  }
  // An integer that 64 bits do not hold is a number nevertheless.
  if (number.kind == CellNumber::Kind::kTooLarge) {
    if (const auto value = ParseFinite(CellText(cell))) return value;
  }
  RefuseResults(file, line, column + ": " + DescribeNumber(cell, number.kind));
}

// Reads a row of a table that has a value a row.
ImportedValue ReadLongValue(const std::string& file, const ColumnRoles& columns,
                            const TableRow& row) {
  ImportedValue value{.name = CellText(columns.Get(row, Role::kMetricName)),
                      .time = columns.GetTime(row, Role::kTime),
                      .line = row.line};
  std::tie(value.step, value.epoch) = columns.GetStep(row);
  const std::string kind = LowerCase(CellText(columns.Get(row, Role::kKind)));
  if (!kind.empty() && kind != "training" && kind != "validation") {
    RefuseResults(
        file, row.line,
        "kind: " + ShowCell(kind) + " is neither training nor validation");
  }
  value.training = kind == "training";
  if (value.name.empty()) {
    RefuseResults(file, row.line, "name is empty; write that of the metric");
  }
  const auto number = ReadMetricCell(file, row.line, "value",
                                     columns.Get(row, Role::kMetricValue));
  if (!number) {
    RefuseResults(file, row.line, "value is empty; remove the row");
  }
  value.value = *number;
  return value;
}

// Returns what a text of CSV stands for; nothing for one that is only a text.
std::optional<TableCell> ParseHparam(const std::string& text) {
  const std::string lower = LowerCase(text);
  if (text == "null") return TableCell();
  if (lower == "true" || lower == "false") return TableCell(lower == "true");
  if (text.starts_with('[') || text.starts_with('{')) {
    TableCell parsed =
        TableCell::parse(text, nullptr, /*allow_exceptions=*/false);
    const bool is_usable =
        !parsed.is_discarded() && !NestsDeeperThan(parsed, kMaxObjectLevels);
    if (is_usable) return parsed;
  }
  const CellNumber number = ReadTextNumber(text);
  if (number.kind != CellNumber::Kind::kNumber) return std::nullopt;
  return number.integer ? TableCell(*number.integer) : TableCell(number.value);
}

// Checks the values of a hyperparameter, and gives the texts of a column in CSV
// their type if none of them is only a text.
void TypeHparam(const std::string& name, bool json_lines,
                ImportedResults& results) {
  using enum CellNumber::Kind;
  std::string text;  // where the first one is
  bool has_number = false, has_fraction = false;
  for (const ImportedTrial& trial : results.trials) {
    const auto found = trial.hparams.find(name);
    if (found == trial.hparams.end()) continue;
    const TableCell& cell = found->second;
    const CellNumber number = ReadNumber(cell);
    has_number = has_number || number.kind == kNumber ||
                 (cell.is_string() && ResemblesNumber(cell));
    has_fraction = has_fraction || (number.kind == kNumber && !number.integer);
    const bool is_text =
        cell.is_string() &&
        (json_lines ? number.kind != kSpecial
                    : number.kind == kNone && !ParseHparam(cell));
    if (is_text && text.empty()) {
      text = "line " + std::to_string(trial.line) + " has " + ShowCell(cell);
    }
  }
  if (!text.empty() && has_number && !json_lines) {
    results.notes.push_back("hyperparameter " + name + " is a text, since " +
                            text);
  }
  for (ImportedTrial& trial : results.trials) {
    const auto found = trial.hparams.find(name);
    if (found == trial.hparams.end()) continue;
    TableCell& cell = found->second;
    const CellNumber number = ReadNumber(cell);
    if (text.empty() && number.kind != kNumber && number.kind != kNone) {
      RefuseResults(
          results.file, trial.line,
          "hyperparameter " + name + ": " + DescribeNumber(cell, number.kind));
    }
    const bool is_typed = !json_lines && (text.empty() || cell == "null");
    if (!is_typed) continue;
    cell = *ParseHparam(cell);
    if (cell.is_number() && has_fraction) cell = number.value;
  }
}

// True for names joined by dots, none of them empty.
bool IsHparamName(const std::string& name) {
  constexpr std::size_t kMaxName = 500;
  return !name.empty() && name.size() <= kMaxName && name.front() != '.' &&
         name.back() != '.' && name.find("..") == name.npos;
}

// Reads the trials of a table.
class TrialTable {
 public:
  TrialTable(const TableText& table, const ColumnOptions& options)
      : options_(options), table_(table) {
    results_.file = table.file;
  }

  ImportedResults Read() {
    TableRows rows(table_);
    std::vector<TableRow> kept;
    std::size_t cells = 0;
    for (TableRow row; rows.Next(row);) {
      cells += row.cells.size();
      if (cells > kMaxTableCells) {
        RefuseResults(table_.file, row.line,
                      "more than 5,000,000 fields; import fewer columns or "
                      "rows");
      }
      kept.push_back(std::move(row));
    }
    if (kept.empty()) rows.RefuseEmpty();
    const ColumnRoles columns(rows.columns(), options_, table_.file);
    const std::vector<std::size_t> metrics =
        FindMetrics(columns, kept, rows.header_line());
    for (const TableRow& row : kept) AddRow(columns, metrics, row);
    if (columns.is_export()) {
      const auto find = [&](std::string_view name) -> TableCell {
        const auto named = std::ranges::find(rows.columns(), name);
        const auto at =
            static_cast<std::size_t>(named - rows.columns().begin());
        for (const TableRow& row : kept) {
          if (at < row.cells.size() && !row.cells[at].is_null()) {
            return row.cells[at];
          }
        }
        return nullptr;
      };
      const TableCell metric = find("search.metric");
      if (metric.is_string()) results_.metric = metric;
      const TableCell goal = find("search.goal");
      if (goal.is_string()) results_.smaller_is_better = goal == "minimize";
    }
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (columns.role(i) == Role::kHparam) {
        TypeHparam(columns.hparam(i), table_.json_lines, results_);
      }
    }
    return std::move(results_);
  }

 private:
  // True for a column that only numbers the rows: pandas writes it without a
  // name, reads that as 'Unnamed: 0', and calls it 'index' if asked to.
  static bool IsRowIndex(const std::string& name, std::size_t i,
                         const std::vector<TableRow>& rows) {
    if (!name.empty() && name != "index" && !name.starts_with("Unnamed: ")) {
      return false;
    }
    std::set<std::int64_t> counts;
    for (const TableRow& row : rows) {
      const bool has_cell = i < row.cells.size() &&
                            !row.cells[i].is_discarded() &&
                            !row.cells[i].is_null();
      if (!has_cell) continue;
      const auto count = ReadNumber(row.cells[i]).integer;
      const bool is_new = count && *count >= 0 && counts.insert(*count).second;
      if (!is_new) return false;
    }
    return !counts.empty();
  }

  // Returns the columns that are metrics: the chosen one, and others that have
  // only numbers.
  std::vector<std::size_t> FindMetrics(const ColumnRoles& columns,
                                       const std::vector<TableRow>& rows,
                                       std::int64_t header_line) {
    std::vector<std::size_t> metrics;
    std::vector<std::string> ignored;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (columns.role(i) != Role::kMetric) continue;
      const std::string& name = columns.name(i);
      const bool is_chosen = !name.empty() && name == options_.metric;
      if (!is_chosen && IsRowIndex(name, i, rows)) {
        results_.notes.push_back(
            "left out: column " +
            (name.empty() ? std::to_string(i + 1) : ShowCell(name)) +
            ", which only numbers the rows");
        continue;
      }
      bool has_any = false, has_text = false;
      std::string odd;
      for (const TableRow& row : rows) {
        if (i >= row.cells.size()) continue;
        const TableCell& cell = row.cells[i];
        if (cell.is_discarded() || cell.is_null()) continue;
        has_any = true;
        if (has_text || ReadNumber(cell).kind != CellNumber::Kind::kNone) {
          continue;
        }
        has_text = true;
        if (cell.is_string() && ResemblesNumber(cell)) {
          odd = " (line " + std::to_string(row.line) + " has " +
                ShowCell(cell) + ")";
        }
      }
      if (name.empty() && has_any) {
        RefuseResults(table_.file, header_line,
                      "column " + std::to_string(i + 1) +
                          " has no name; name it, or remove it (in pandas: "
                          "to_csv(..., index=False))");
      }
      if (columns.is_long() || name.empty()) continue;
      if (!is_chosen && (!has_any || has_text)) {
        ignored.push_back(name + odd);
        continue;
      }
      metrics.push_back(i);
      results_.guesses_metrics |= !is_chosen && options_.hparams.empty();
    }
    if (!ignored.empty()) {
      results_.notes.push_back(
          "not imported, since they are neither numbers "
          "nor hyperparameters: " +
          JoinFirst(ignored, 8) +
          (options_.hparams.empty()
               ? "; if one is a hyperparameter, name all of those with --hp"
               : ""));
    }
    if (metrics.empty() && !columns.is_long() && !columns.is_export()) {
      if (!options_.metric.empty()) {
        std::vector<std::string> all;
        for (std::size_t i = 0; i < columns.size(); ++i) {
          all.push_back(columns.name(i));
        }
        RefuseResults(table_.file, 0,
                      "--metric: there is no column '" + options_.metric + "'" +
                          DidYouMean(options_.metric, all));
      }
      RefuseResults(table_.file, 0,
                    "has no column of numbers that could be the metric; name "
                    "it with --metric");
    }
    return metrics;
  }

  void AddRow(const ColumnRoles& columns,
              const std::vector<std::size_t>& metrics, const TableRow& row) {
    const std::string id = CellText(columns.Get(row, Role::kId));
    if (columns.Find(Role::kId) && id.empty()) {
      RefuseResults(table_.file, row.line,
                    columns.name(*columns.Find(Role::kId)) +
                        " is empty; write the name of the trial");
    }
    const auto [place, is_new] = places_.try_emplace(
        columns.Find(Role::kId) ? id : std::to_string(results_.trials.size()),
        results_.trials.size());
    if (is_new) {
      if (results_.trials.size() == kMaxTrials) {
        RefuseResults(table_.file, row.line,
                      "more than 100,000 trials; import them in parts");
      }
      results_.trials.push_back({.id = id, .line = row.line});
    }
    ImportedTrial& trial = results_.trials[place->second];
    const bool has_step =
        columns.Find(Role::kStep) || columns.Find(Role::kEpoch);
    if (!is_new && !has_step) {
      RefuseResults(table_.file, row.line,
                    "trial " + ShowCell(id) + " is in line " +
                        std::to_string(trial.line) +
                        " already; add a column 'step', or remove one");
    }
    ReadTrial(columns, row, trial);
    if (columns.is_long()) {
      trial.values.push_back(ReadLongValue(table_.file, columns, row));
      return;
    }
    if (columns.is_export()) {
      trial.batches = columns.GetCount(row, Role::kStep).value_or(0);
    }
    for (const std::size_t i : metrics) {
      if (i >= row.cells.size()) continue;
      const auto value =
          ReadMetricCell(table_.file, row.line, columns.name(i), row.cells[i]);
      if (!value) continue;
      const auto [step, epoch] = columns.GetStep(row);
      trial.values.push_back({.step = step,
                              .epoch = epoch,
                              .name = columns.name(i),
                              .value = *value,
                              .line = row.line});
    }
  }

  // Reads what a row says of its trial. Of several rows the last one counts.
  void ReadTrial(const ColumnRoles& columns, const TableRow& row,
                 ImportedTrial& trial) {
    const std::string state = CellText(columns.Get(row, Role::kState));
    if (!state.empty()) {
      const auto known = ParseTrialState(state);
      if (!known) {
        RefuseResults(table_.file, row.line,
                      "state: " + ShowCell(state) +
                          " is unknown; write COMPLETED, STOPPED, ERROR, "
                          "CANCELED or RUNNING");
      }
      trial.state = *known;
    }
    const std::string reason = CellText(columns.Get(row, Role::kReason));
    if (!reason.empty()) trial.reason = reason;
    if (auto time = columns.GetTime(row, Role::kStarted);
        time && !trial.started) {
      trial.started = time;
    }
    if (auto time = columns.GetTime(row, Role::kEnded)) trial.ended = time;
    if (trial.started && trial.ended && *trial.ended < *trial.started) {
      RefuseResults(table_.file, row.line,
                    "the trial ends before it starts; correct the times");
    }
    // pandas writes durations as texts, which the times say, too.
    const CellNumber seconds = ReadNumber(columns.Get(row, Role::kSeconds));
    if (seconds.kind == CellNumber::Kind::kNumber && seconds.value >= 0) {
      trial.seconds = seconds.value;
    }
    const CellNumber seed = ReadNumber(columns.Get(row, Role::kSeed));
    if (seed.integer && *seed.integer >= 0 &&
        *seed.integer <= std::numeric_limits<std::uint32_t>::max()) {
      trial.seed = static_cast<std::uint32_t>(*seed.integer);
    }
    if (const auto rung = columns.GetCount(row, Role::kRung)) {
      trial.rung = rung;
    }
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (columns.role(i) != Role::kHparam || i >= row.cells.size() ||
          row.cells[i].is_discarded()) {
        continue;
      }
      const std::string& name = columns.hparam(i);
      if (!IsHparamName(name)) {
        RefuseResults(table_.file, row.line,
                      "column " + ShowCell(columns.name(i)) +
                          " names no hyperparameter; rename it to hp.NAME");
      }
      const auto [found, is_new] =
          trial.hparams.try_emplace(name, row.cells[i]);
      if (is_new || found->second == row.cells[i]) continue;
      RefuseResults(table_.file, row.line,
                    "hyperparameter " + name + " is " + ShowCell(row.cells[i]) +
                        ", but " + ShowCell(found->second) +
                        " in an earlier row of the same trial; give them "
                        "different trials");
    }
  }

  const ColumnOptions& options_;
  const TableText& table_;
  ImportedResults results_;
  std::map<std::string, std::size_t> places_;
};

}  // namespace

ImportedResults ReadTrialTable(const TableText& table,
                               const ColumnOptions& options) {
  return TrialTable(table, options).Read();
}

void ReadValueTable(const TableText& table, ImportedResults& results) {
  std::map<std::string, ImportedTrial*> trials;
  for (ImportedTrial& trial : results.trials) trials[trial.id] = &trial;
  TableRows rows(table);
  std::optional<ColumnRoles> columns;
  for (TableRow row; rows.Next(row);) {
    if (!columns || columns->size() != rows.columns().size()) {
      columns.emplace(rows.columns(), ColumnOptions(), table.file);
      if (!columns->is_long()) {
        RefuseResults(table.file, row.line,
                      "is no table of values; give columns trial, step, name "
                      "and value");
      }
    }
    const std::string id = CellText(columns->Get(row, Role::kId));
    const auto trial = trials.find(id);
    if (trial == trials.end()) {
      RefuseResults(table.file, row.line,
                    "trial " + ShowCell(id) + " is not in " + results.file);
    }
    trial->second->values.push_back(ReadLongValue(table.file, *columns, row));
  }
}

std::optional<std::string> ParseTrialState(std::string_view word) {
  struct StateWord {
    std::string_view word;
    const char* state;
  };
  constexpr std::array kWords = {
      StateWord{"completed", "COMPLETED"}, StateWord{"complete", "COMPLETED"},
      StateWord{"finished", "COMPLETED"},  StateWord{"terminated", "COMPLETED"},
      StateWord{"success", "COMPLETED"},   StateWord{"succeeded", "COMPLETED"},
      StateWord{"done", "COMPLETED"},      StateWord{"pruned", "STOPPED"},
      StateWord{"stopped", "STOPPED"},     StateWord{"fail", "ERROR"},
      StateWord{"failed", "ERROR"},        StateWord{"crashed", "ERROR"},
      StateWord{"error", "ERROR"},         StateWord{"killed", "CANCELED"},
      StateWord{"canceled", "CANCELED"},   StateWord{"cancelled", "CANCELED"},
      StateWord{"invalid", "INVALID"},     StateWord{"running", "RUNNING"},
      StateWord{"waiting", "RUNNING"},     StateWord{"pending", "RUNNING"},
      StateWord{"paused", "RUNNING"},      StateWord{"interrupted", "RUNNING"},
      StateWord{"preempted", "RUNNING"},   StateWord{"preempting", "RUNNING"},
  };
  const auto found =
      std::ranges::find(kWords, LowerCase(Trim(word)), &StateWord::word);
  if (found == kWords.end()) return std::nullopt;
  return found->state;
}

void FinishResults(const std::string& metric, ImportedResults& results) {
  const std::size_t before = results.trials.size();
  std::erase_if(results.trials, [](const ImportedTrial& trial) {
    return trial.state == "RUNNING";
  });
  if (results.trials.size() < before) {
    results.notes.push_back(
        "left out: " +
        CountText(static_cast<std::int64_t>(before - results.trials.size()),
                  "trial that has", "trials that have") +
        " not ended");
  }
  if (results.trials.empty()) {
    RefuseResults(
        results.file, 0,
        before == 0 ? "has no trial" : "no trial has ended; import it later");
  }
  std::set<std::string> names;
  std::int64_t failed = 0;
  for (ImportedTrial& trial : results.trials) {
    const auto key = [](const ImportedValue& value) {
      return std::tie(value.training, value.step, value.name);
    };
    std::ranges::stable_sort(trial.values, {}, key);
    const auto twice = std::ranges::adjacent_find(trial.values, {}, key);
    if (twice != trial.values.end()) {
      RefuseResults(
          results.file, (twice + 1)->line,
          "trial " + ShowCell(trial.id) + " has " + ShowCell(twice->name) +
              " twice at step " + std::to_string(twice->step) +
              (twice->line > 0 ? " (line " + std::to_string(twice->line) + ")"
                               : "") +
              "; remove one of them");
    }
    for (const auto& [name, value] : trial.hparams) {
      const bool is_name = IsHparamName(name);
      const bool is_finite =
          !value.is_number() || std::isfinite(value.get<double>());
      if (is_name && is_finite) continue;
      RefuseResults(results.file, trial.line,
                    "trial " + ShowCell(trial.id) + ": hyperparameter " +
                        ShowCell(name) +
                        (is_name ? " is not a finite number; leave it out"
                                 : " has a name that cannot be used; rename "
                                   "it"));
    }
    bool has_result = false;
    for (const ImportedValue& value : trial.values) {
      if (value.training) continue;
      has_result = true;
      names.insert(value.name);
    }
    failed += has_result && trial.HasFailed();
  }
  const std::vector<std::string> all(names.begin(), names.end());
  if (!metric.empty()) {
    results.metric = metric;
  } else if (results.metric.empty() && all.size() == 1) {
    results.metric = all.front();
  }
  if (results.metric.empty()) {
    RefuseResults(results.file, 0,
                  all.empty() ? "no trial has a value of a metric"
                              : "has several metrics; choose one with "
                                "--metric: " +
                                    JoinFirst(all, 10));
  }
  if (!names.contains(results.metric)) {
    const std::string hint = DidYouMean(results.metric, all);
    RefuseResults(results.file, 0,
                  "--metric: no trial has a value of '" + results.metric + "'" +
                      (!hint.empty() ? hint
                       : all.empty() ? ""
                                     : "; there are " + JoinFirst(all, 10)));
  }
  if (failed > 0) {
    results.notes.push_back(
        "values of " +
        CountText(failed, "trial that has failed", "trials that have failed") +
        " are kept, but never the best");
  }
  // Trials of an export keep their numbers.
  std::set<std::int64_t> numbers;
  std::string experiment;
  for (ImportedTrial& trial : results.trials) {
    const std::size_t dot = trial.id.find('.');
    const std::string first = trial.id.substr(0, dot);
    const CellNumber number = ReadTextNumber(
        dot == trial.id.npos ? "" : std::string_view(trial.id).substr(dot + 1));
    const bool is_id =
        dot != trial.id.npos && ReadTextNumber(first).integer.value_or(0) > 0 &&
        number.integer.value_or(0) > 0 && *number.integer <= 1'000'000;
    if (!is_id || (!experiment.empty() && experiment != first)) break;
    experiment = first;
    trial.number = *number.integer;
    numbers.insert(trial.number);
  }
  if (numbers.size() == results.trials.size()) {
    std::ranges::sort(results.trials, {}, &ImportedTrial::number);
    return;
  }
  std::int64_t next = 0;
  for (ImportedTrial& trial : results.trials) trial.number = ++next;
}

namespace {

// Returns the keys on the way to a hyperparameter. A map of a YAML cannot have
// a hyperparameter `type`; names beside one stay whole.
std::vector<std::string> SplitHparam(const std::set<std::string>& names,
                                     const std::string& name) {
  for (std::size_t dot = name.find('.'); dot != name.npos;
       dot = name.find('.', dot + 1)) {
    if (names.contains(name.substr(0, dot) + ".type")) return {name};
  }
  return Split(name, '.');
}

std::set<std::string> HparamNamesIn(const ImportedResults& results) {
  std::set<std::string> names;
  for (const ImportedTrial& trial : results.trials) {
    for (const auto& [name, value] : trial.hparams) names.insert(name);
  }
  return names;
}

TableCell Nest(const std::set<std::string>& names,
               const std::map<std::string, TableCell>& flat) {
  TableCell nested = TableCell::object();
  for (const auto& [name, value] : flat) {
    TableCell* map = &nested;
    for (const std::string& part : SplitHparam(names, name)) {
      map = &(*map)[part];
    }
    *map = value;
  }
  return nested;
}

// CSV of an export has both a hyperparameter that is a map and its parts.
void DropParts(ImportedResults& results) {
  const auto names = HparamNamesIn(results);
  for (const std::string& name : names) {
    const std::string inside = name + ".";
    const auto part = names.lower_bound(inside);
    if (part == names.end() || !part->starts_with(inside)) continue;
    for (ImportedTrial& trial : results.trials) {
      const auto whole = trial.hparams.find(name);
      if (whole != trial.hparams.end() && !whole->second.is_object()) {
        RefuseResults(results.file, trial.line,
                      "hyperparameters " + name + " and " + *part +
                          " exclude one another; rename one of them");
      }
      std::erase_if(trial.hparams, [&](const auto& one) {
        return one.first.starts_with(inside);
      });
    }
  }
}

// Returns the smallest range that has the values.
TableCell InferRange(const ImportedResults& results, const std::string& name,
                     const std::set<TableCell>& values) {
  if (values.size() == 1) return {{"type", "const"}, {"val", *values.begin()}};
  const bool are_numbers = std::ranges::all_of(values, &TableCell::is_number);
  const bool are_counts =
      std::ranges::all_of(values, [](const TableCell& value) {
        return value.is_number_integer() &&
               std::abs(value.get<double>()) <= static_cast<double>(kMaxCount);
      });
  if (are_counts) {
    return {{"type", "int"},
            {"minval", *values.begin()},
            {"maxval", *values.rbegin()}};
  }
  if (are_numbers) {
    const double low = values.begin()->get<double>();
    const double high = values.rbegin()->get<double>();
    TableCell range = {{"type", "double"}, {"minval", low}, {"maxval", high}};
    // Values over two decades were most likely searched by their logarithm.
    if (low > 0 && high / low >= 100) range["log"] = true;
    return range;
  }
  if (values.size() > kMaxChoices) {
    RefuseResults(results.file, 0,
                  "hyperparameter " + name + " has more than " +
                      std::to_string(kMaxChoices) +
                      " different texts; name the columns that are "
                      "hyperparameters with --hp");
  }
  return {{"type", "categorical"},
          {"vals", std::vector<TableCell>(values.begin(), values.end())}};
}

// Returns the condition that explains which trials have the hyperparameter:
// the values of another one. Null if there is none.
TableCell InferCondition(
    const ImportedResults& results, const std::string& name,
    const std::map<std::string, std::set<TableCell>>& all) {
  constexpr std::array<std::string_view, 5> kReserved = {
      "checkpoint", "directory", "length", "seed", "trial"};
  if (std::ranges::find(kReserved, name) != kReserved.end()) return nullptr;
  for (const auto& [other, values] : all) {
    const bool is_choice =
        other != name && values.size() > 1 && values.size() <= 20 &&
        std::ranges::none_of(values, [](const TableCell& value) {
          return value.is_number() || value.is_structured();
        });
    if (!is_choice) continue;
    std::set<TableCell> with, without;
    bool is_known = true;
    for (const ImportedTrial& trial : results.trials) {
      const auto value = trial.hparams.find(other);
      is_known = is_known && value != trial.hparams.end();
      if (!is_known) break;
      (trial.hparams.contains(name) ? with : without).insert(value->second);
    }
    const bool decides =
        is_known && std::ranges::none_of(with, [&](const TableCell& value) {
          return without.contains(value);
        });
    if (decides)
      return {{other, std::vector<TableCell>(with.begin(), with.end())}};
  }
  return nullptr;
}

}  // namespace

TableCell MakeImportedConfig(const std::string& name,
                             std::optional<bool> maximize,
                             ImportedResults& results) {
  DropParts(results);
  std::map<std::string, std::set<TableCell>> values;
  std::map<std::string, std::size_t> counts;
  for (const ImportedTrial& trial : results.trials) {
    for (const auto& [hparam, value] : trial.hparams) {
      values[hparam].insert(value);
      ++counts[hparam];
    }
  }
  std::map<std::string, TableCell> space;
  for (const auto& [hparam, own] : values) {
    const auto known = results.ranges.find(hparam);
    TableCell range = known != results.ranges.end()
                          ? known->second
                          : InferRange(results, hparam, own);
    if (counts[hparam] < results.trials.size()) {
      TableCell when = InferCondition(results, hparam, values);
      if (!when.is_null()) range["when"] = std::move(when);
    }
    space[hparam] = std::move(range);
  }
  const std::set<std::string> names = HparamNamesIn(results);
  std::int64_t trials = 1;
  for (ImportedTrial& trial : results.trials) {
    trials = std::max(trials, trial.number);
    trial.nested = Nest(names, trial.hparams);
  }
  TableCell searcher = {
      {"name", "random"}, {"metric", results.metric}, {"max_trials", trials}};
  if (!maximize && results.smaller_is_better) {
    maximize = !*results.smaller_is_better;
  }
  // Without a direction the reader of configurations warns of names such as
  // accuracy.
  if (maximize) searcher["smaller_is_better"] = !*maximize;
  return {{"name", name},
          {"entrypoint", {"imported"}},
          {"hyperparameters", Nest(names, space)},
          {"searcher", std::move(searcher)}};
}

}  // namespace dtrain
