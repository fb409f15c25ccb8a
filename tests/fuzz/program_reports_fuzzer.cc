// Fuzzes the reader of a program's reports: each line is either parsed or
// rejected with an error.

#include <algorithm>
#include <cmath>
#include <string>

#include "engine/program/program_report.h"
#include "engine/wire/message.h"
#include "tests/fuzz/fuzz_target.h"

namespace dtrain {
namespace {

constexpr std::size_t kMaxLine = 4096;
constexpr double kMaxCount = 1e15;

void CheckPoint(const ProgramPoint& point) {
  Require(point.count >= 0 && point.count <= kMaxCount, "a count is bounded");
  Require(point.batches >= 0 && std::isfinite(point.epoch) && point.epoch >= 0,
          "batches and epochs are not negative");
}

void CheckReport(const ProgramReport& report) {
  std::visit(
      [](const auto& kind) {
        if constexpr (requires { kind.point; }) CheckPoint(kind.point);
        if constexpr (requires { kind.metrics; }) {
          // The metrics survive the trip to the runner.
          const std::string line =
              Encode(TrialMessage(TrainingReport{.seq = 1,
                                                 .batches = kind.point.batches,
                                                 .epoch = kind.point.epoch,
                                                 .metrics = kind.metrics}));
          Require(line.find('\n') == line.size() - 1, "a message is one line");
          (void)DecodeTrialMessage(line.substr(0, line.size() - 1));
        }
      },
      report);
}

void CheckLine(const std::string& line) {
  for (const Unit unit : {Unit::kBatches, Unit::kEpochs, Unit::kRecords}) {
    for (const bool planned : {true, false}) {
      try {
        CheckReport(ParseProgramReport(line, {.unit = unit,
                                              .planned = planned,
                                              .is_open = !planned,
                                              .records_per_epoch = 100}));
      } catch (const Error& error) {
        Require(error.kind() == ErrorKind::kFailed, "a bad line is a failure");
        RequireOneLine(error);
      }
    }
  }
}

void CheckLines(std::string_view input) {
  ByteFile file(input);
  ReportLines lines(file.Release(), kMaxLine);
  std::string_view rest = input;
  bool open = true;
  while (open) {
    open = lines.Fill();
    while (const auto line = lines.Next()) {
      const std::size_t length = std::min(rest.find('\n'), rest.size());
      Require(line->too_long == (length > kMaxLine),
              "only long lines are marked as too long");
      Require(rest.substr(0, length).starts_with(line->text) &&
                  (line->too_long || line->text.size() == length),
              "lines match the stream");
      rest.remove_prefix(std::min(length + 1, rest.size()));
      if (!line->too_long) CheckLine(line->text);
    }
  }
  Require(rest.empty(), "the whole stream was read");
}

}  // namespace
}  // namespace dtrain

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dtrain::CheckLines(dtrain::ToText(data, size));
  return 0;
}
