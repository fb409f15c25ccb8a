// Fuzzes the readers of a control socket: the messages between a trial and its
// runner, one per line, and the trial's specification, the first line that a
// trial reads.

#include <string>

#include "engine/os/line_reader.h"
#include "engine/train/trial_channel.h"
#include "engine/wire/message.h"
#include "tests/fuzz/fuzz_target.h"

namespace dtrain {
namespace {

constexpr std::size_t kMaxLine = 4096;

// The reader returns all lines of the stream, complete and in order.
void CheckLines(std::string_view input) {
  ByteFile file(input);
  const UniqueFd fd = file.Release();
  LineReader reader(fd.get(), kMaxLine);
  std::string_view rest = input;
  try {
    bool open = true;
    while (open) {
      open = reader.Fill();
      while (const auto line = reader.Next()) {
        Require(rest.substr(0, line->size() + 1) == *line + '\n',
                "lines match the stream");
        rest.remove_prefix(line->size() + 1);
        CheckMessage<TrialMessage>(*line, DecodeTrialMessage, Encode);
        CheckMessage<RunnerMessage>(*line, DecodeRunnerMessage, Encode);
      }
    }
    Require(rest.find('\n') == rest.npos, "no complete line is left");
  } catch (const Error& error) {
    Require(rest.substr(0, kMaxLine + 1).find('\n') == rest.npos,
            "only a long line is rejected");
    RequireOneLine(error);
  }
}

void CheckSpec(std::string_view input) {
  ByteFile file(input);
  TrialChannel channel(file.Release());
  TrialSpec spec;
  try {
    spec = channel.ReadSpec();
  } catch (const Error& error) {
    RequireOneLine(error);
    return;
  }
  std::string written = Encode(spec);
  written.pop_back();
  Require(Encode(DecodeTrialSpec(written)) == written + '\n',
          "writing and reading again changes nothing");
}

}  // namespace
}  // namespace dtrain

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = dtrain::ToText(data, size);
  dtrain::CheckLines(input);
  dtrain::CheckSpec(input);
  return 0;
}
