#pragma once

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "engine/report/table.h"

namespace dtrain {

/// How a command prints its facts.
enum class Format { kText, kJson, kCsv };

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

/// `dtrain: TEXT` on stderr, escaped, for what is no error.
void Say(const GlobalOptions& globals, const std::string& text);

/// `dtrain: error: TEXT` on stderr, escaped.
void SayError(const GlobalOptions& globals, const std::string& text);

}  // namespace dtrain
