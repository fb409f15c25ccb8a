// Fuzzes the decoders of the messages between the runner and its workers on
// other machines. A peer that knows the secret may be of another version, and
// trials write a part of what it sends.

#include <string>

#include "engine/base/text.h"
#include "engine/nodes/node_message.h"
#include "tests/fuzz/fuzz_target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using dtrain::CheckMessage;
  const std::string input(dtrain::ToText(data, size));
  for (const std::string& line : dtrain::Split(input, '\n')) {
    CheckMessage(line, dtrain::DecodeReport, dtrain::EncodeReport);
    CheckMessage(line, dtrain::DecodeOrder, dtrain::EncodeOrder);
  }
  return 0;
}
