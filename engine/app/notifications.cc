// Messages about experiments. A message is recorded in the transaction of its
// cause (engine/run/notifications.h). `dtrain __notify`, which runs beside the
// runner, sends it after the commit and records the outcome; a message whose
// process was killed stays unsent, and the next run, or `resume`, starts
// another one. So a message is sent at least once, and its id tells a second
// one.
//
// The process has a session of its own and none of the runner's descriptors but
// a pipe, so that Ctrl-C does not concern it and nobody who reads the runner's
// output waits for it. The end of the pipe tells it that the runner has ended,
// however it did. It starts before the launcher: a child that appears later
// would be taken for what a trial left behind, and killed.

#include "engine/app/notifications.h"

#include <algorithm>
#include <array>
#include <span>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/base/web_address.h"
#include "engine/config/experiment_config.h"
#include "engine/config/read_config.h"
#include "engine/fetch/fetch_program.h"
#include "engine/os/file_lock.h"
#include "engine/os/line_reader.h"
#include "engine/os/process.h"
#include "engine/os/sha256.h"
#include "engine/os/spawn.h"
#include "engine/os/system_error.h"
#include "engine/store/store.h"

namespace dtrain {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

// Time that the program which sends may take beyond its own limit.
constexpr Duration kProgramMargin = std::chrono::seconds(5);
constexpr std::size_t kMaxErrorColumns = 300;

std::string ToText(const json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/false,
                    json::error_handler_t::replace);
}

// Slack's own characters are entities in a text.
std::string SlackBody(const json& body) {
  std::string text;
  for (const char c : body.at("text").get<std::string>()) {
    text += c == '&'   ? "&amp;"
            : c == '<' ? "&lt;"
            : c == '>' ? "&gt;"
                       : std::string(1, c);
  }
  return ToText({{"text", text}});
}

struct Attempt {
  std::string problem;  // empty: sent
  bool temporary = true;
};

// What is sent of a message. The signature is empty without a key.
struct SignedBody {
  std::string body;
  std::string time;
  std::string signature;
};

SignedBody Sign(const NotifyConfig& notify, const NotificationRow& row) {
  SignedBody result{.body =
                        notify.slack ? SlackBody(row.body) : ToText(row.body)};
  if (notify.secret_env.empty()) return result;
  const auto now = Clock::System().now();
  result.time = std::to_string(
      std::chrono::duration_cast<std::chrono::seconds>(now).count());
  const std::string signature =
      HmacSha256(*ProcessVariable(notify.secret_env.c_str()),
                 {result.time, ".", result.body});
  result.signature = "sha256=" + ToHex(std::as_bytes(std::span(signature)));
  return result;
}

Attempt SendToCommand(const NotifyConfig& notify, const SignedBody& message,
                      Duration limit) {
  const CapturedRun run = RunCaptured(
      notify.command,
      EnvironmentWith({{"DTRAIN_NOTIFY_TIMESTAMP", message.time},
                       {"DTRAIN_NOTIFY_SIGNATURE", message.signature}}),
      limit, message.body + "\n");
  switch (run.end) {
    case CapturedRun::End::kNotStarted:
      errno = run.error;
      return {.problem = "cannot be started: " + ErrnoText()};
    case CapturedRun::End::kTooLate:
      return {.problem = "was killed after " + FormatDuration(limit)};
    case CapturedRun::End::kExited:
      break;
  }
  if (run.succeeded()) return {};
  std::string line;
  for (const std::string& one : Split(run.errors, '\n')) {
    if (!one.empty()) line = one;
  }
  return {.problem =
              FormatExit(run.status) + (line.empty() ? "" : ": " + line)};
}

Attempt SendToUrl(const NotifyConfig& notify, const std::string& id,
                  const SignedBody& message, Duration limit) {
  const std::string url = notify.url_env.empty()
                              ? notify.url
                              : *ProcessVariable(notify.url_env.c_str());
  const auto address = ParseWebAddress(url);
  if (!address || (address->scheme != "http" && address->scheme != "https")) {
    return {.problem = "is not an address of http or https",
            .temporary = false};
  }
  json headers = {"Content-Type: application/json", "X-Dtrain-Id: " + id};
  if (!message.signature.empty()) {
    headers.push_back("X-Dtrain-Timestamp: " + message.time);
    headers.push_back("X-Dtrain-Signature: " + message.signature);
  }
  const json request = {
      {"url", url},
      {"headers", headers},
      {"body", message.body},
      {"limit_ms", std::chrono::duration_cast<milliseconds>(limit).count()}};
  const CapturedRun run =
      RunCaptured({FindFetchProgram().string(), "--post"}, EnvironmentWith({}),
                  limit + kProgramMargin, ToText(request));
  const json answer = json::parse(run.output, nullptr,
                                  /*allow_exceptions=*/false);
  if (!run.succeeded() || !answer.is_object()) {
    return {.problem = "data-fetch " + FormatExit(run.status) +
                       "; install libcurl4 and libarchive13"};
  }
  return {.problem = answer.at("problem"), .temporary = answer.at("temporary")};
}

Attempt Send(const NotifyConfig& notify, const NotificationRow& row,
             Duration limit) {
  const std::vector<std::string> missing = MissingVariables(notify);
  if (!missing.empty()) {
    return {
        .problem = "environment variable " + missing.front() + " is not set",
        .temporary = false};
  }
  const SignedBody message = Sign(notify, row);
  return row.target == "command" ? SendToCommand(notify, message, limit)
                                 : SendToUrl(notify, row.uuid, message, limit);
}

}  // namespace

Notifier::Notifier(const StoreLayout& layout, std::int64_t experiment) {
  Pipe pipe = MakePipe();
  const pid_t pid =
      Spawn()
          .Duplicate(pipe.reading.get(), STDIN_FILENO)
          .Open(STDOUT_FILENO, "/dev/null", O_WRONLY)
          .Open(STDERR_FILENO, layout.RunnerLog(experiment),
                O_WRONLY | O_APPEND | O_CREAT, 0600)
          .CloseFrom(STDERR_FILENO + 1)
          .ResetSignals()
          .NewSession()
          .Run("/proc/self/exe",
               {"dtrain", std::string(kNotifyCommand), layout.root().string(),
                std::to_string(experiment)});
  if (pid < 0) return;
  // One byte that is not read yet is enough.
  ::fcntl(pipe.writing.get(), F_SETFL, O_NONBLOCK);
  wake_ = std::move(pipe.writing);
}

void Notifier::Wake() {
  // It may have been killed, or has not read the last byte yet.
  if (wake_) static_cast<void>(!::write(wake_.get(), "+", 1));
}

void Deliver(const NotifyConfig& notify, NotificationRow& row,
             const DeliveryLimits& limits) {
  Duration pause = limits.pause;
  for (row.attempts = 1;; ++row.attempts, pause *= 2) {
    Attempt attempt;
    try {
      attempt = Send(notify, row, limits.attempt);
    } catch (const Error& error) {
      attempt.problem = error.what();
    }
    row.error = Truncate(attempt.problem, kMaxErrorColumns);
    if (attempt.problem.empty() || !attempt.temporary ||
        row.attempts >= limits.attempts) {
      break;
    }
    std::this_thread::sleep_for(pause);
  }
  row.ended = Clock::System().now();
}

std::string TargetText(const NotifyConfig& notify, const std::string& target) {
  if (target == "command") return "command " + notify.command.front();
  return notify.url_env.empty() ? ShownUrl(notify.url) : "$" + notify.url_env;
}

std::string OutcomeText(const NotificationRow& row) {
  if (!row.ended) return "not sent yet";
  if (row.error.empty()) return "sent";
  return "not sent: " + row.error;
}

json NotificationJson(const NotifyConfig& notify, const NotificationRow& row) {
  return {{"id", row.uuid},
          {"event", row.event},
          {"target", TargetText(notify, row.target)},
          {"created", FormatTimestamp(row.created)},
          {"ended", row.ended ? json(FormatTimestamp(*row.ended)) : json()},
          {"attempts", row.attempts},
          {"error", row.error.empty() ? json() : json(row.error)}};
}

namespace {

void SendAll(const StoreLayout& layout, std::int64_t id) {
  FileLock lock = FileLock::Open(layout.Experiment(id) / "notify.lock");
  if (!lock || !lock.Lock()) return;  // it was deleted
  // The runner has written there, whatever file system it is.
  Store store = Store::OpenForWriting(layout, NetworkWrites::kAllowed);
  const auto detail = store.Experiment(id);
  if (!detail) return;
  const ExperimentConfig config = ConfigFromJson(detail->config);
  if (!config.notify) return;
  NotifyConfig notify = *config.notify;
  notify.url = store.NotifyUrl(id);
  const std::vector<std::string> missing = MissingVariables(notify);
  while (true) {
    // Again after each: meanwhile a later best may have replaced others.
    auto rows = store.Notifications(id);
    const auto row = std::ranges::find_if(
        rows, [](const NotificationRow& one) { return !one.ended; });
    if (row == rows.end()) return;
    if (!missing.empty()) {
      const std::string line =
          "dtrain: notifications wait: environment "
          "variable " +
          missing.front() + " is not set; set it and resume\n";
      static_cast<void>(!WriteAll(STDERR_FILENO, line));
      return;
    }
    Deliver(notify, *row);
    store.Write([&](StoreWriter& writer) { writer.EndNotification(*row); });
    const std::string line = "dtrain: notification " + row->event + " to " +
                             EscapeForTerminal(TargetText(notify, row->target) +
                                               ": " + OutcomeText(*row)) +
                             ", " + CountText(row->attempts, "attempt") +
                             ", id " + row->uuid + "\n";
    static_cast<void>(!WriteAll(STDERR_FILENO, line));
  }
}

}  // namespace

int SendNotifications(const std::vector<std::string>& words) {
  if (words.size() != 2) {
    throw Error(ErrorKind::kUsage, "usage: dtrain __notify STORE EXP");
  }
  const StoreLayout layout(words[0]);
  const std::int64_t id = std::stoll(words[1]);
  std::array<char, 256> bytes;
  while (::read(STDIN_FILENO, bytes.data(), bytes.size()) > 0) {
    SendAll(layout, id);
  }
  SendAll(layout, id);
  return 0;
}

std::vector<std::string> MissingVariables(const NotifyConfig& notify) {
  std::vector<std::string> missing;
  for (const std::string& name : {notify.url_env, notify.secret_env}) {
    if (!name.empty() && ProcessVariable(name.c_str()).value_or("").empty()) {
      missing.push_back(name);
    }
  }
  return missing;
}

void RequireNotifyVariables(const std::string& name,
                            const ExperimentConfig& config) {
  if (!config.notify) return;
  const std::vector<std::string> missing = MissingVariables(*config.notify);
  if (missing.empty()) return;
  throw Error(ErrorKind::kUsage,
              name + ": notify: environment variable " + missing.front() +
                  " is not set; set it first; nothing was created");
}

}  // namespace dtrain
