#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "engine/base/length.h"
#include "engine/report/terminal.h"

namespace dtrain {

class DurableFile;
class Store;
struct CheckpointUseOptions;
struct ExperimentRow;

/// Output format of a command.
enum class Format { kText, kJson, kCsv };

/// The name of the column `batches`; in a table for people, the unit that it
/// counts.
std::string CountColumn(Unit counted, Format format);

/// `--json`.
struct JsonOption {
  bool json = false;
};

/// `--json` and `--csv`, which exclude each other.
struct TableOptions {
  bool json = false;
  bool csv = false;

  Format format() const {
    return json ? Format::kJson : csv ? Format::kCsv : Format::kText;
  }
};

void AddJsonOption(CLI::App& app, JsonOption& options);
void AddTableOptions(CLI::App& app, TableOptions& options);

/// CHECKPOINT, --latest, --split, --data and --slots.
void AddCheckpointUseOptions(CLI::App& app, CheckpointUseOptions& options);

/// Returns the searched hyperparameters of a trial, abbreviated; in JSON and
/// CSV all of them in full.
Cell HparamsCell(const nlohmann::json& space, const nlohmann::json& hparams);

/// Returns `text`, escaped, as a part of a line on stdout that begins in column
/// `first`. On a terminal it is broken at words, see WrapText.
std::string WrapForStdout(std::string_view text, std::size_t first,
                          std::size_t indent);

/// Prints "  NAME  VALUE" on stdout, values aligned; nothing for an empty
/// value.
void PrintFact(const std::string& name, const std::string& value);

/// Prints on stderr that an experiment which no process runs is not COMPLETED,
/// with its error or the command to resume it.
void ExplainState(const ExperimentRow& row, const GlobalOptions& globals);

/// True if stdout is a terminal. Control characters are then escaped in every
/// format; a pipe or file receives the bytes unchanged.
bool StdoutIsTerminal();

/// Prints YAML, with control characters escaped on a terminal.
void PrintYaml(const std::string& yaml);

/// Prints one document on stdout, in valid UTF-8.
void PrintJson(const nlohmann::json& document);

/// Prints the table as text or CSV. REQUIRES: `format` is not JSON.
void PrintTable(const Table& table, Format format,
                const GlobalOptions& globals);

/// Writes `text` to the file that `option` ("--out") named. Throws
/// Error(kFailed) that ends with `remedy` if it cannot be written.
void WriteNamedFile(const std::string& option, const std::string& path,
                    const std::string& text, const std::string& remedy);

/// A file that `option` ("--out") named, written complete or not at all: its
/// bytes go to a temporary file beside it, whose name ends in .tmp. Throws
/// Error(kUsage) if the file exists and may not be replaced, Error(kFailed) if
/// it cannot be written.
class NewFile {
 public:
  /// `replace`: an existing regular file of this name is replaced.
  NewFile(std::filesystem::path path, bool replace,
          std::string option = "--out");
  ~NewFile();

  void Write(std::span<const std::byte> bytes);
  /// The file is durable under its name when this returns. REQUIRES: the last
  /// call.
  void Keep();

  std::int64_t bytes() const { return bytes_; }

 private:
  [[noreturn]] void Fail(int error) const;
  void RequireAbsent() const;

  std::filesystem::path path_;
  bool replace_;
  std::string option_;
  std::unique_ptr<DurableFile> file_;
  std::int64_t bytes_ = 0;
};

/// Flushes stdout. Throws Error(kFailed) if something could not be written,
/// unless the reader of a pipe is gone.
void FinishOutput();

/// Columns and JSON fields of the rows of one kind.
template <typename Row>
struct Listing {
  std::string name;  // of the rows in JSON
  std::vector<Column> columns;
  std::function<nlohmann::json(const Row&)> json;
  std::function<std::vector<Cell>(const Row&)> cells;
};

/// Prints the rows in `format`: as a member of `document` in JSON, as CSV, or
/// as a table.
template <typename Row>
void PrintListing(const Listing<Row>& listing, const std::vector<Row>& rows,
                  Format format, const GlobalOptions& globals,
                  nlohmann::json document = nlohmann::json::object()) {
  if (format == Format::kJson) {
    nlohmann::json array = nlohmann::json::array();
    for (const Row& row : rows) array.push_back(listing.json(row));
    document[listing.name] = std::move(array);
    return PrintJson(document);
  }
  Table table(listing.columns);
  for (const Row& row : rows) table.AddRow(listing.cells(row));
  PrintTable(table, format, globals);
}

/// Removes all but the first `limit` rows; 0: no limit.
template <typename Row>
void KeepFirst(std::size_t limit, std::vector<Row>& rows) {
  const bool cut = limit > 0 && limit < rows.size();
  if (cut)
    rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(limit), rows.end());
}

}  // namespace dtrain
