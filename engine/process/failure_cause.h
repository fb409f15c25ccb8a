#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dtrain {

/// Finds the line that names the cause of a program's failure in what it wrote
/// to stderr: the last exception of the last Python traceback, or else the last
/// line with a word for an error, or else the last line with text. Progress
/// bars, warnings and what launchers and interpreters write about the failure
/// of another program are passed over. Keeps no more than the line.
class FailureCause {
 public:
  /// Maximum number of bytes that are read of a line and returned.
  static constexpr std::size_t kMaxLine = 2000;

  /// Reads the next line, without its newline.
  void Read(std::string_view line);
  /// Returns the cause so far as plain text: without escape sequences and
  /// control characters. Empty if there was no line with text.
  std::string Text() const;

 private:
  // Whose exception the next traceback ends with.
  enum class Traceback {
    kProgram,
    kSide,    // a thread's, or one while the interpreter exits
    kIgnored  // one that Python ignored
  };
  struct Line {
    std::string text;
    std::int64_t number = 0;
  };

  std::int64_t lines_ = 0;  // with text
  Line exception_;          // of the program
  Line worded_;             // with a word for an error
  Line last_;
  bool in_traceback_ = false;
  bool is_closed_ = false;  // by the report of a launcher
  Traceback now_ = Traceback::kProgram;
  Traceback next_ = Traceback::kProgram;
};

}  // namespace dtrain
