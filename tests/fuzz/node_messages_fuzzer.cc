// Fuzzes the decoders of the messages between the runner and its followers on
// other machines. A peer that knows the secret may be of another version, and
// trials write a part of what it sends.

#include <optional>
#include <string>

#include "engine/base/text.h"
#include "engine/nodes/node_message.h"
#include "tests/fuzz/fuzz_target.h"

namespace dtrain {
namespace {

// A message that can be read is unchanged by writing and reading it again.
template <typename Message>
void CheckMessage(const std::string& line, Message (*decode)(std::string_view),
                  std::string (*encode)(const Message&)) {
  std::optional<Message> message;
  try {
    message = decode(line);
  } catch (const Error& error) {
    Require(error.kind() == ErrorKind::kFailed, "a bad message is a failure");
    RequireOneLine(error);
    return;
  }
  std::string written = encode(*message);
  Require(written.ends_with('\n'), "a written message ends its line");
  written.pop_back();
  Require(written.find('\n') == written.npos, "a message is one line");
  Require(encode(decode(written)) == written + '\n',
          "writing and reading again changes nothing");
}

}  // namespace
}  // namespace dtrain

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using dtrain::CheckMessage;
  const std::string input(dtrain::TextOf(data, size));
  for (const std::string& line : dtrain::Split(input, '\n')) {
    CheckMessage(line, dtrain::DecodeReport, dtrain::EncodeReport);
    CheckMessage(line, dtrain::DecodeOrder, dtrain::EncodeOrder);
  }
  return 0;
}
