// Fuzzes the readers of metrics that a program prints or writes: output,
// JSON lines, CSV and event files. Whatever they hold, the result is reports
// and remarks.

#include <algorithm>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/tfevents.h"
#include "engine/program/metric_file.h"
#include "engine/program/printed_metrics.h"
#include "tests/fuzz/fuzz_target.h"

namespace dtrain {
namespace {

constexpr double kMaxStep = 1e15 + 1;

void CheckFindings(const MetricFindings& findings) {
  for (const FoundReport& report : findings.reports) {
    Require(!report.metrics.empty(), "a report has metrics");
    Require(report.count >= 0 && report.count <= kMaxStep,
            "a count is bounded");
  }
  for (const auto& remark : findings.remarks) {
    Require(remark.text.find('\n') == std::string::npos &&
                remark.text.size() < 10'000,
            "a remark is one short line");
  }
}

void CheckOutput(std::string_view input) {
  const UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  for (const int bounds : {0, 1, 2}) {
    MetricSource source{
        .names = {{"acc", "acc[:= ]+(\\S+)"}, {"loss", "loss=(.*)"}}};
    if (bounds == 1) source.step = "epoch (\\S+)";
    if (bounds == 2) source.step_end = "epoch (\\S+)";
    MetricFindings findings;
    PrintedMetrics printed(source, "acc", 0, false, findings);
    ByteFile file(input);
    ProgramOutput output(file.Release(), null.get());
    std::size_t length = 0;
    while (output.fd() >= 0) {
      output.Fill();
      while (const auto line = output.Next()) {
        Require(line->text.size() <= ProgramOutput::kMaxLine,
                "a line is bounded");
        length += line->text.size();
        printed.Read(*line);
      }
    }
    if (const auto line = output.Rest()) {
      length += line->text.size();
      printed.Read(*line);
    }
    printed.End(true);
    Require(length <= input.size(), "lines are parts of the stream");
    (void)printed.Hint();
    CheckFindings(findings);
  }
}

void CheckRows(std::string_view input) {
  CsvRows rows;
  std::string_view rest = input;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    try {
      (void)rows.Parse(line);
    } catch (const Error& error) {
      RequireOneLine(error);
    }
    try {
      (void)ParseJsonRow(line);
    } catch (const Error& error) {
      RequireOneLine(error);
    }
  }
}

void CheckEvents(std::string_view input) {
  try {
    (void)ParseEvent(input);
  } catch (const Error& error) {
    RequireOneLine(error);
  }
  EventRecords records;
  std::size_t length = 0;
  try {
    // In two pieces, as a file that grows.
    for (const std::string_view part :
         {input.substr(0, input.size() / 2), input.substr(input.size() / 2)}) {
      records.Append(part);
      while (const auto record = records.Next()) {
        length += record->size();
        (void)ParseEvent(*record);
      }
    }
  } catch (const Error& error) {
    RequireOneLine(error);
  }
  Require(length <= input.size(), "records are parts of the file");
}

}  // namespace
}  // namespace dtrain

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = dtrain::ToText(data, size);
  dtrain::CheckOutput(text);
  dtrain::CheckRows(text);
  dtrain::CheckEvents(text);
  return 0;
}
