// What comes over a control socket, from a trial to its runner and the other
// way: lines, each a message; and the first line that a trial reads, its
// specification.

#include <optional>
#include <string>

#include "engine/os/line_reader.h"
#include "engine/train/trial_channel.h"
#include "engine/wire/message.h"
#include "tests/fuzz/byte_file.h"
#include "tests/fuzz/fuzz_checks.h"

namespace dtrain {
namespace {

constexpr std::size_t kMostLine = 4096;

// A line that is a message, written and read again, is the same message.
template <typename Message>
void CheckMessage(const std::string& line,
                  Message (*decode)(std::string_view)) {
  std::optional<Message> message;
  try {
    message = decode(line);
  } catch (const Error& error) {
    Require(error.kind() == ErrorKind::kFailed, "a bad message is a failure");
    RequireOneLine(error);
    return;
  }
  std::string written = Encode(*message);
  Require(written.ends_with('\n'), "a message is written as a line");
  written.pop_back();
  Require(written.find('\n') == written.npos, "a message is one line");
  Require(Encode(decode(written)) == written + '\n',
          "a message, written out, reads the same");
}

// Every line comes whole and in its order, and none is kept back.
void CheckLines(std::string_view input) {
  ByteFile file(input);
  const UniqueFd fd = file.Release();
  LineReader reader(fd.get(), kMostLine);
  std::string_view rest = input;
  try {
    bool open = true;
    while (open) {
      open = reader.Fill();
      while (const auto line = reader.Next()) {
        Require(rest.substr(0, line->size() + 1) == *line + '\n',
                "lines are those of the stream");
        rest.remove_prefix(line->size() + 1);
        CheckMessage(*line, DecodeTrialMessage);
        CheckMessage(*line, DecodeRunnerMessage);
      }
    }
    Require(rest.find('\n') == rest.npos, "no whole line is left");
  } catch (const Error& error) {
    Require(rest.substr(0, kMostLine + 1).find('\n') == rest.npos,
            "only a long line is refused");
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
  const auto json = spec.ToJson();
  Require(TrialSpec::FromJson(json).ToJson() == json,
          "a specification, written out, reads the same");
}

}  // namespace
}  // namespace dtrain

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = dtrain::TextOf(data, size);
  dtrain::CheckLines(input);
  dtrain::CheckSpec(input);
  return 0;
}
