#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "engine/store/log_record.h"

namespace dtrain {

/// Cuts a stream of bytes from one rank into records: lines, a level by the
/// prefix `<N>` of sd-daemon(3) (stripped) or kInfo, lines over 64 KiB in
/// pieces. Bounded memory.
class LogLineSplitter {
 public:
  LogLineSplitter(int rank, bool from_stderr)
      : rank_(rank), from_stderr_(from_stderr) {}

  void Feed(std::string_view bytes, Timestamp now,
            const std::function<void(const LogRecord&)>& emit);
  /// The stream ended: what is left is a line.
  void Finish(Timestamp now, const std::function<void(const LogRecord&)>& emit);

 private:
  void Emit(Timestamp now, bool partial,
            const std::function<void(const LogRecord&)>& emit);

  int rank_;
  bool from_stderr_;
  bool continued_ = false;
  LogLevel level_ = LogLevel::kInfo;
  std::string pending_;
};

}  // namespace dtrain
