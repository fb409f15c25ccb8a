#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "engine/app/checkpoint_use.h"
#include "engine/app/stores.h"
#include "engine/report/table.h"

namespace dtrain {

/// How a command prints its facts.
enum class Format { kText, kJson, kCsv };

/// The name of the column `batches` of `experiment`; in a table for people, the
/// unit that it counts.
std::string CountColumn(const Store& store, std::int64_t experiment,
                        Format format);

/// `--json`.
struct JsonOption {
  bool json = false;
};

/// `--json` and `--csv`, of which one at most.
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

/// Those of a trial's hyperparameters that `space` left open, briefly; all of
/// them where programs read.
Cell HparamsCell(const nlohmann::json& space, const nlohmann::json& hparams);

/// "  NAME  VALUE" on stdout, values of all names below each other; nothing for
/// an empty value.
void PrintFact(const std::string& name, const std::string& value);

/// Whether people look at stdout: then nothing on it may be obeyed by a
/// terminal, whatever the format; to a pipe or a file go the bytes as they are.
bool StdoutIsTerminal();

/// To a file as it is, to a terminal so that it obeys nothing in it.
void PrintYaml(const std::string& yaml);

/// One document on stdout, in valid UTF-8.
void PrintJson(const nlohmann::json& document);

/// The table as text or CSV. REQUIRES: `format` is not JSON.
void PrintTable(const Table& table, Format format,
                const GlobalOptions& globals);

/// Writes `text` to the file that `option` ("--out") named. Throws
/// Error(kFailed) that ends with `remedy` if it cannot be written.
void WriteNamedFile(const std::string& option, const std::string& path,
                    const std::string& text, const std::string& remedy);

/// Writes out what stdout still holds. Throws Error(kFailed) if anything could
/// not be written, but not where nobody reads any more.
void FinishOutput();

/// How the rows of one kind are shown.
template <typename Row>
struct Listing {
  std::string name;  // of the rows in JSON
  std::vector<Column> columns;
  std::function<nlohmann::json(const Row&)> json;
  std::function<std::vector<Cell>(const Row&)> cells;
};

/// The rows as they were asked for: as a member of `document` in JSON, as CSV,
/// or as a table.
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

/// Leaves the first `limit` rows; 0: all of them.
template <typename Row>
void KeepFirst(std::size_t limit, std::vector<Row>& rows) {
  const bool cut = limit > 0 && limit < rows.size();
  if (cut)
    rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(limit), rows.end());
}

}  // namespace dtrain
