// `dtrain data`: downloads, lists and verifies data sets.
//
// The progress line is redrawn on a terminal, at most ten times a second;
// without a terminal a line is printed every ten seconds, so that the log of a
// CI job stays short.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/base/error.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/data/data_directory.h"
#include "engine/fetch/address.h"
#include "engine/fetch/data_sets.h"
#include "engine/fetch/fetch_program.h"
#include "engine/os/signals.h"
#include "engine/report/terminal.h"

namespace dtrain {
namespace {

std::vector<std::filesystem::path> DataPlaces(const std::string& to) {
  std::vector<std::filesystem::path> places = DataDirectory(to).places();
  if (places.empty()) {
    throw Error(ErrorKind::kUsage,
                "data: neither DTRAIN_DATA nor HOME is set; give a directory "
                "with --to");
  }
  // Printed paths must be valid from any directory.
  for (auto& place : places) place = std::filesystem::absolute(place);
  return places;
}

/// Progress of a download on stderr: a line that is redrawn on a terminal,
/// otherwise a line every few seconds; nothing with --quiet. Erases an
/// unfinished line.
class FetchDisplay {
 public:
  explicit FetchDisplay(const GlobalOptions& globals);
  FetchDisplay(const FetchDisplay&) = delete;
  FetchDisplay& operator=(const FetchDisplay&) = delete;
  ~FetchDisplay() { Clear(); }

  /// Shows that `bytes` of the `expected` bytes of `file` are present.
  void Show(std::string_view file, std::int64_t bytes, std::int64_t expected);
  /// Prints a permanent line.
  void Print(const std::string& text);
  /// Erases the progress line.
  void Clear();

 private:
  using Instant = std::chrono::steady_clock::time_point;

  void Begin(std::string_view file, std::int64_t bytes, Instant now);
  std::string Line(std::int64_t bytes, std::int64_t expected,
                   Instant now) const;

  const GlobalOptions& globals_;
  TerminalMode mode_;
  std::string file_;
  Instant began_;
  Instant shown_;
  std::int64_t began_with_ = 0;
  bool drawn_ = false;
};

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr milliseconds kRedraw{100};
constexpr seconds kSparse{10};

FetchDisplay::FetchDisplay(const GlobalOptions& globals)
    : globals_(globals), mode_(GetTerminalMode(STDERR_FILENO, globals.color)) {}

void FetchDisplay::Begin(std::string_view file, std::int64_t bytes,
                         Instant now) {
  Clear();
  file_ = file;
  began_ = now;
  began_with_ = bytes;
  // Delay the first line: a short download needs none.
  shown_ = mode_.redraw ? now - kRedraw : now;
}

std::string FetchDisplay::Line(std::int64_t bytes, std::int64_t expected,
                               Instant now) const {
  const std::int64_t percent =
      expected > 0 ? std::min<std::int64_t>(100, bytes * 100 / expected) : 0;
  std::string line = file_ + ": " + FormatBytes(bytes) + " of " +
                     FormatBytes(expected) + ", " + std::to_string(percent) +
                     "%";
  const double elapsed = std::chrono::duration<double>(now - began_).count();
  const std::int64_t came = bytes - began_with_;
  if (elapsed < 0.5 || came <= 0) return line;
  const double speed = static_cast<double>(came) / elapsed;
  const double left =
      static_cast<double>(std::max<std::int64_t>(0, expected - bytes)) / speed;
  return line + ", " + FormatBytes(static_cast<std::int64_t>(speed)) + "/s, " +
         FormatElapsed(std::chrono::duration_cast<Duration>(
             std::chrono::duration<double>(std::min(left, 1e6)))) +
         " left";
}

void FetchDisplay::Show(std::string_view file, std::int64_t bytes,
                        std::int64_t expected) {
  if (globals_.quiet) return;
  const Instant now = steady_clock::now();
  // Fewer bytes than before: the download restarted.
  if (file != file_ || bytes < began_with_) Begin(file, bytes, now);
  if (now - shown_ < (mode_.redraw ? steady_clock::duration(kRedraw)
                                   : steady_clock::duration(kSparse))) {
    return;
  }
  shown_ = now;
  std::string line = "dtrain: " + EscapeForTerminal(Line(bytes, expected, now));
  if (!mode_.redraw) {
    std::cerr << line << '\n';
    return;
  }
  if (mode_.width > 1) line = Truncate(line, mode_.width - 1, Ellipsis(mode_));
  std::cerr << "\r\x1b[K" << line << std::flush;
  drawn_ = true;
}

void FetchDisplay::Print(const std::string& text) {
  Clear();
  dtrain::PrintNotice(globals_, text);
}

void FetchDisplay::Clear() {
  if (drawn_) std::cerr << "\r\x1b[K" << std::flush;
  drawn_ = false;
}

struct DataFetchOptions : JsonOption {
  std::vector<std::string> names;
  std::string from;
  std::string to;
  bool force = false;
};

// Validates the options before anything is downloaded.
FetchOptions Checked(const DataFetchOptions& options) {
  FetchOptions fetch{.places = DataPlaces(options.to), .force = options.force};
  if (!options.from.empty()) fetch.from = SourceAddress(options.from);
  return fetch;
}

nlohmann::json ResultJson(const DataSet& set, const FetchResult& result) {
  return {{"name", set.name},
          {"directory", result.found.directory.string()},
          {"fetched", result.end == FetchResult::End::kFetched},
          {"files", result.found.files},
          {"bytes", result.found.bytes}};
}

void PrintResult(const DataSet& set, const FetchResult& result) {
  const bool fetched = result.end == FetchResult::End::kFetched;
  std::cout << EscapeForTerminal(
                   std::string(set.name) + ": " +
                   (fetched ? "downloaded to " : "already present in ") +
                   result.found.directory.string() + " (" +
                   CountText(result.found.files, "file") + ", " +
                   FormatBytes(result.found.bytes) + ")")
            << '\n'
            << std::flush;
}

int DataFetch(const DataFetchOptions& options, const GlobalOptions& globals) {
  FetchOptions fetch = Checked(options);
  std::vector<const DataSet*> sets;
  for (const std::string& name : options.names) {
    sets.push_back(&FindDataSet(name));
  }
  SignalWatch signals;
  int signal = 0;
  FetchDisplay display(globals);
  fetch.progress = [&](const FetchProgress& progress) {
    display.Show(progress.file, progress.bytes, progress.expected);
  };
  fetch.say = [&](const std::string& text) { display.Print(text); };
  fetch.stop = [&] {
    if (signal == 0) signal = signals.Read();
    return signal != 0;
  };
  nlohmann::json results = nlohmann::json::array();
  for (const DataSet* set : sets) {
    const FetchResult result = FetchInProgram(*set, fetch);
    if (result.end == FetchResult::End::kStopped) {
      display.Print(std::string(set->name) +
                    ": interrupted; the partial download is kept, run the same "
                    "command again to resume");
      return 128 + signal;
    }
    // Erase the progress line first.
    display.Clear();
    results.push_back(ResultJson(*set, result));
    if (!options.json) PrintResult(*set, result);
  }
  if (options.json) PrintJson({{"sets", std::move(results)}});
  return kExitDone;
}

struct DataListOptions : TableOptions {
  std::string to;
};

struct ListedSet {
  const DataSet* set = nullptr;
  FoundSet found;
};

nlohmann::json DirectoryJson(const FoundSet& found) {
  if (found.directory.empty()) return nullptr;
  return found.directory.string();
}

Listing<ListedSet> SetListing() {
  return {.name = "sets",
          .columns = {{.name = "name"},
                      {.name = "size", .right = true},
                      {.name = "state"},
                      {.name = "where", .elastic = true, .least = 20},
                      {.name = "summary", .elastic = true, .optional = true}},
          .json = [](const ListedSet& row) -> nlohmann::json {
            return {{"name", row.set->name},
                    {"summary", row.set->summary},
                    {"bytes", DownloadBytes(*row.set)},
                    {"state", StateName(row.found.state)},
                    {"directory", DirectoryJson(row.found)}};
          },
          .cells = [](const ListedSet& row) -> std::vector<Cell> {
            const std::int64_t bytes = DownloadBytes(*row.set);
            const std::string state(StateName(row.found.state));
            const std::string where = row.found.directory.string();
            const Tone tone = row.found.Complete() ? Tone::kGood
                              : row.found.state == SetState::kMissing
                                  ? Tone::kDim
                                  : Tone::kWarning;
            return {std::string(row.set->name),
                    Cell(FormatBytes(bytes), std::to_string(bytes)),
                    Cell(state, state, tone),
                    Cell(where.empty() ? "-" : where, where),
                    std::string(row.set->summary)};
          }};
}

int DataList(const DataListOptions& options, const GlobalOptions& globals) {
  const auto places = DataPlaces(options.to);
  std::vector<ListedSet> rows;
  for (const DataSet& set : DataSets()) {
    rows.push_back({.set = &set, .found = LocateSet(set, places)});
  }
  PrintListing(SetListing(), rows, options.format(), globals);
  return kExitDone;
}

struct DataVerifyOptions : TableOptions {
  std::vector<std::string> names;
  std::string to;
};

struct VerifiedSet {
  const DataSet* set = nullptr;
  FoundSet found;
};

bool IsBad(const VerifiedSet& row) {
  return row.found.state == SetState::kDamaged ||
         row.found.state == SetState::kPartial;
}

bool IsMissing(const VerifiedSet& row) {
  return row.found.state == SetState::kMissing;
}

// Verifies the named sets, or all that are at least partly present.
std::vector<VerifiedSet> VerifySets(const DataVerifyOptions& options) {
  const auto places = DataPlaces(options.to);
  std::vector<const DataSet*> sets;
  for (const std::string& name : options.names) {
    sets.push_back(&FindDataSet(name));
  }
  if (options.names.empty()) {
    for (const DataSet& set : DataSets()) {
      const FoundSet found = LocateSet(set, places);
      if (!found.directory.empty()) sets.push_back(&set);
    }
  }
  std::vector<VerifiedSet> rows;
  for (const DataSet* set : sets) {
    rows.push_back({.set = set, .found = *VerifySet(*set, places, nullptr)});
  }
  return rows;
}

Tone ChooseTone(const VerifiedSet& row) {
  if (IsBad(row) || IsMissing(row)) return Tone::kBad;
  return row.found.state == SetState::kGood ? Tone::kGood : Tone::kWarning;
}

Listing<VerifiedSet> VerifiedSetListing() {
  return {.name = "sets",
          .columns = {{.name = "name"},
                      {.name = "files", .right = true},
                      {.name = "bytes", .right = true},
                      {.name = "state"},
                      {.name = "where", .elastic = true, .least = 20},
                      {.name = "problem", .elastic = true, .least = 20}},
          .json = [](const VerifiedSet& row) -> nlohmann::json {
            nlohmann::json directory;
            nlohmann::json problem;
            if (!row.found.directory.empty()) {
              directory = row.found.directory.string();
            }
            if (!row.found.problem.empty()) problem = row.found.problem;
            return {{"name", row.set->name},
                    {"directory", std::move(directory)},
                    {"files", row.found.files},
                    {"bytes", row.found.bytes},
                    {"state", StateName(row.found.state)},
                    {"problem", std::move(problem)}};
          },
          .cells = [](const VerifiedSet& row) -> std::vector<Cell> {
            const std::string state(StateName(row.found.state));
            return {std::string(row.set->name),
                    std::to_string(row.found.files),
                    Cell(FormatBytes(row.found.bytes),
                         std::to_string(row.found.bytes)),
                    Cell(state, state, ChooseTone(row)),
                    row.found.directory.string(),
                    row.found.problem};
          }};
}

int DataVerify(const DataVerifyOptions& options, const GlobalOptions& globals) {
  const std::vector<VerifiedSet> rows = VerifySets(options);
  PrintListing(VerifiedSetListing(), rows, options.format(), globals);
  const auto command = [&](const VerifiedSet& row) {
    return NamedCommand(
        "dtrain data fetch " + std::string(row.set->name) +
        (options.to.empty() ? "" : " --to " + QuotePathForShell(options.to)));
  };
  const auto bad = std::ranges::find_if(rows, IsBad);
  if (bad != rows.end()) {
    PrintError(globals, std::to_string(std::ranges::count_if(rows, IsBad)) +
                            " of " + std::to_string(rows.size()) +
                            " sets are damaged or incomplete; " +
                            command(*bad) + " repairs the first");
    return kExitFailed;
  }
  const auto missing = std::ranges::find_if(rows, IsMissing);
  if (missing == rows.end()) return kExitDone;
  PrintError(globals, std::string(missing->set->name) +
                          ": is not downloaded; " + command(*missing) +
                          " downloads it");
  return kExitNotFound;
}

std::vector<std::string> DataSetNames() {
  std::vector<std::string> names;
  for (const DataSet& set : DataSets()) names.emplace_back(set.name);
  return names;
}

}  // namespace

CommandRun SetUpDataFetch(CLI::App& app) {
  auto options = std::make_shared<DataFetchOptions>();
  AddOption(app, "NAME", options->names,
            "Names of data sets, from 'dtrain data list'")
      .Suggests(DataSetNames())
      .Required();
  AddOption(app, "--from", options->from,
            "Download from this mirror, or copy from this directory")
      .TypeName("URL|DIR")
      .IsPath();
  AddOption(app, "--to", options->to,
            "Data directory (default: $DTRAIN_DATA, else ~/.cache/dtrain/data)")
      .TypeName("DIR")
      .IsPath();
  AddFlag(app, "--force", options->force,
          "Download again even if present and valid");
  AddJsonOption(app, *options);
  SetHelp(app,
          {.notes = "Interrupted downloads are resumed, up to five times "
                    "automatically, then by the next call.",
           .exits = {{kExitDone},
                     {kExitFailed,
                      "a download failed or does not match its checksum"},
                     {kExitUsage},
                     {kExitNotFound, "no such data set"},
                     {130, "interrupted; run the command again to resume"}},
           .examples = {
               {"Download two data sets", "dtrain data fetch mnist cifar10"},
               {"Copy a data set from a shared directory",
                "dtrain data fetch mnist --from /mnt/datasets --to /data"}}});
  return RunWith(DataFetch, options);
}

CommandRun SetUpDataList(CLI::App& app) {
  auto options = std::make_shared<DataListOptions>();
  AddOption(app, "--to", options->to, "Look only in this data directory")
      .TypeName("DIR")
      .IsPath();
  AddTableOptions(app, *options);
  SetHelp(app, {.exits = {{kExitDone}, {kExitUsage}},
                .examples = {{"List all data sets and where they are",
                              "dtrain data list"},
                             {"List those in a given directory",
                              "dtrain data list --to /data"}}});
  return RunWith(DataList, options);
}

CommandRun SetUpDataVerify(CLI::App& app) {
  auto options = std::make_shared<DataVerifyOptions>();
  AddOption(app, "NAME", options->names,
            "Names of data sets; without any, all downloaded ones")
      .Suggests(DataSetNames());
  AddOption(app, "--to", options->to, "Look only in this data directory")
      .TypeName("DIR")
      .IsPath();
  AddTableOptions(app, *options);
  SetHelp(
      app,
      {.exits = {{kExitDone, "all files are intact"},
                 {kExitFailed, "a data set is damaged or incomplete"},
                 {kExitUsage},
                 {kExitNotFound, "a named data set is not downloaded"}},
       .examples = {{"Verify all downloaded data sets", "dtrain data verify"},
                    {"Verify one data set before a long run",
                     "dtrain data verify cifar10"}}});
  return RunWith(DataVerify, options);
}

}  // namespace dtrain
