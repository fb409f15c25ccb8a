// Finds the cause of a failure among the lines that a program wrote to stderr.
//
// Each line is reduced first: of parts that carriage returns overwrite, the
// last one with text; no escape sequences, no progress bar before it, no mark
// of a rank. Then a small state machine follows Python's tracebacks, whose last
// line is the exception. What stands before a traceback decides whose exception
// it is: the program's, that of a thread or of an exit handler, or one that
// Python ignored. Chained exceptions keep the kind of the one before. An
// exception of a launcher says only that its program failed: it counts no more
// than a line with a word for an error, and the report that torchrun prints
// behind its own (ChildFailedError) is passed over.
//
// Outside of tracebacks a line with a word for an error is the second choice,
// and the last line with text the third. An error after which the program wrote
// many more lines is not the cause of its end.

#include "engine/process/failure_cause.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "engine/base/text.h"
#include "engine/store/trial_log.h"

namespace dtrain {
namespace {

constexpr char kEscape = '\x1b';

// Number of lines with text after which a program has outlived an error that it
// wrote about. The reports of launchers and loggers are shorter.
constexpr std::int64_t kMaxLater = 60;

bool IsAlnum(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || std::isalnum(byte) != 0;
}

bool HasText(std::string_view text) {
  return std::any_of(text.begin(), text.end(), IsAlnum);
}

// Returns the text without escape sequences and control characters.
std::string ToPlainText(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    std::size_t length = 1;
    const char c = text.front();
    if (c == kEscape) {
      // An escape sequence: a control sequence up to its final byte, a string
      // up to BEL or ESC, or two bytes.
      const char kind = text.size() > 1 ? text[1] : '\0';
      std::size_t end = 2;
      if (kind == '[') {
        while (end < text.size() && (text[end] < '@' || text[end] > '~')) ++end;
        ++end;
      } else if (kind == ']' || kind == 'P') {
        end = text.find_first_of("\a\x1b", end);
        end = std::min(end, text.size());
        end += end < text.size() && text[end] == kEscape ? 2 : 1;
      }
      length = std::min(end, text.size());
    } else if (c == '\t') {
      plain += ' ';
    } else if (std::iscntrl(static_cast<unsigned char>(c)) == 0) {
      plain += c;
    }
    text.remove_prefix(length);
  }
  return plain;
}

// Returns what follows a progress bar of tqdm, which ends with its speed, and
// the marks of ranks ("[rank0]: ") and of exception groups ("  | ").
std::string_view WithoutMarks(std::string_view text) {
  for (const std::string_view speed : {"it/s]", "s/it]", "B/s]"}) {
    const std::size_t bar = text.rfind(speed);
    if (bar == text.npos || text.rfind('[', bar) == text.npos) continue;
    const std::string_view rest = text.substr(bar + speed.size());
    if (HasText(rest)) text = rest;
  }
  if (text.starts_with("[rank")) {
    const std::size_t end = text.find("]: ");
    if (end != text.npos) text.remove_prefix(end + 3);
  }
  const std::size_t mark = text.find_first_not_of(' ');
  if (mark != text.npos && text.substr(mark, 2) == "| ") {
    text.remove_prefix(mark + 2);
  }
  return text;
}

// True for "ValueError: bad", "KeyboardInterrupt" or "socket.timeout: late":
// the last line of a traceback.
bool IsException(std::string_view text) {
  std::size_t end = 0;
  std::size_t capitals = 0;
  while (end < text.size() && (IsAlnum(text[end]) || text[end] == '_' ||
                               text[end] == '.' || text[end] == '(')) {
    // RayTaskError(ValueError)
    if (text[end] == '(') {
      end = std::min(text.find(')', end), text.size() - 1);
    }
    capitals += std::isupper(static_cast<unsigned char>(text[end])) != 0;
    ++end;
  }
  if (end == 0) return false;
  if (end < text.size()) {
    return text[end] == ':' && (end + 1 == text.size() || text[end + 1] == ' ');
  }
  return capitals > 1 || text.find('.') != text.npos;
}

// True if a number stands at `text` that is all of a value: "0.31", " = 3, ".
bool IsValue(std::string_view text) {
  std::size_t at = text.find_first_not_of(" :=");
  if (at == text.npos || at == 0) return false;
  const std::size_t begin = at;
  while (at < text.size() &&
         (std::isdigit(static_cast<unsigned char>(text[at])) != 0 ||
          text[at] == '.' || text[at] == 'e' || text[at] == '-')) {
    ++at;
  }
  if (at == begin) return false;
  return at == text.size() ||
         std::string_view(" ,;)|%]").find(text[at]) != std::string_view::npos;
}

// True if the text has a word for an error that is neither part of a name or a
// path nor the name of a value: "ValueError: x", "error: x", not "error 0.31".
bool HasErrorWord(std::string_view text) {
  constexpr std::array<std::string_view, 16> kWords = {
      "error",  "errors",    "exception", "fatal",    "failed",    "failure",
      "panic",  "panicked",  "cannot",    "no such",  "not found", "denied",
      "killed", "core dump", "what()",    "could not"};
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  for (const std::string_view word : kWords) {
    for (std::size_t at = lower.find(word); at != lower.npos;
         at = lower.find(word, at + 1)) {
      const std::size_t end = at + word.size();
      const char before = at == 0 ? ' ' : text[at - 1];
      const char after = end < text.size() ? text[end] : ' ';
      // The end of a name such as ValueError.
      const bool is_class =
          std::isupper(static_cast<unsigned char>(text[at])) &&
          std::islower(static_cast<unsigned char>(before));
      const bool begins = is_class || (!IsAlnum(before) && before != '_' &&
                                       before != '/' && before != '-');
      const bool is_file =
          after == '.' && end + 1 < text.size() && IsAlnum(text[end + 1]);
      const bool ends = word == "core dump" || word == "what()" ||
                        (!IsAlnum(after) && after != '_' && after != '/' &&
                         after != '-' && !is_file);
      if (begins && ends && !IsValue(std::string_view(text).substr(end))) {
        return true;
      }
    }
  }
  return false;
}

// True for lines with such words that are about no failure, or about that of
// another program.
bool IsAside(std::string_view text) {
  constexpr std::array<std::string_view, 13> kBegins = {
      "File \"",
      "Extension modules:",
      "srun: ",
      "slurmstepd: ",
      "mpirun",
      "mpiexec",
      "make: ",
      "make[",
      "INFO",
      "DEBUG",
      "wandb: Find",
      "The above exception",
      "During handling of the above"};
  constexpr std::array<std::string_view, 9> kParts = {
      "arning",
      "torch/distributed/elastic",
      "conda.cli.main_run",
      " INFO ",
      "[INFO",
      "INFO:",
      "[launch.py:",
      "primary job ",
      "DEBUG:"};
  const std::string_view trimmed = Trim(text);
  return std::ranges::any_of(
             kBegins,
             [&](std::string_view one) { return trimmed.starts_with(one); }) ||
         std::ranges::any_of(kParts, [&](std::string_view one) {
           return text.find(one) != text.npos;
         });
}

}  // namespace

void FailureCause::Read(std::string_view raw) {
  // The last part with text of a line that carriage returns overwrite, as
  // progress bars do.
  std::string_view part;
  std::string_view line = raw;
  do {
    const std::size_t start = line.rfind('\r');
    const bool whole = start == std::string_view::npos;
    part = whole ? line : line.substr(start + 1);
    line = whole ? std::string_view() : line.substr(0, start);
  } while (!HasText(part) && !line.empty());
  const bool is_overwritten = part.size() < raw.size();
  const std::string plain =
      ToPlainText(ToValidUtf8(std::string(part.substr(0, kMaxLine))));
  std::string_view marked = WithoutMarks(plain);
  (void)ParseLevelPrefix(marked);  // within a line that was overwritten
  if (!HasText(marked)) return;
  const std::string text(marked);
  ++lines_;
  if (text.find("Traceback (most recent call last)") != text.npos) {
    in_traceback_ = true;
    is_closed_ = false;
    now_ = std::exchange(next_, Traceback::kProgram);
    return;
  }
  if (in_traceback_ && text.front() == ' ') return;  // a frame
  if (in_traceback_ && IsException(text)) {
    in_traceback_ = false;
    // The exception of a launcher says only that its program has failed.
    const std::string name(text.substr(0, text.find(':')));
    is_closed_ = name.ends_with("ChildFailedError");
    if (is_closed_ || now_ == Traceback::kIgnored) return;
    const bool is_launchers = name.ends_with("CalledProcessError") ||
                              name.ends_with("ProcessExitedException");
    const bool is_main = now_ == Traceback::kProgram && !is_launchers;
    (is_main ? exception_ : worded_) = {.text = text, .number = lines_};
    return;
  }
  if (is_closed_) return;
  if (text.starts_with("Exception ignored") ||
      text.starts_with("--- Logging error")) {
    next_ = Traceback::kIgnored;
    return;
  }
  if (text.starts_with("The above exception was the direct cause") ||
      text.starts_with("During handling of the above exception")) {
    next_ = now_;
    return;
  }
  const bool is_thread =
      text.starts_with("Exception in thread") && text.back() == ':';
  if (is_thread || text.starts_with("Error in atexit") ||
      text.starts_with("Error in sys.excepthook")) {
    next_ = Traceback::kSide;
    return;
  }
  if (IsAside(text)) {
    // Better than nothing.
    if (last_.text.empty()) last_ = {.text = text, .number = lines_};
    return;
  }
  if (HasErrorWord(text)) {
    worded_ = {.text = text, .number = lines_};
  } else {
    const bool is_progress =
        std::ranges::any_of(
            text,
            [](char c) {
              return std::isdigit(static_cast<unsigned char>(c)) != 0;
            }) &&
        (is_overwritten || text.find("%|") != text.npos ||
         text.find("it/s]") != text.npos || text.find("s/it]") != text.npos);
    if (is_progress) return;
  }
  last_ = {.text = text, .number = lines_};
}

std::string FailureCause::Text() const {
  for (const Line* line : {&exception_, &worded_}) {
    if (!line->text.empty() && lines_ - line->number <= kMaxLater) {
      return std::string(Trim(line->text));
    }
  }
  return std::string(Trim(last_.text));
}

}  // namespace dtrain
