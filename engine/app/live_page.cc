// A live page reads an experiment once and then what has changed since. What it
// asks for depends only on the events that it has received, so many pages ask
// the same, and are answered from a cache until the store changes.
//
// Everything happens in the thread of the web server: Answer for each request,
// Poll every 250 ms while a page is open. Poll asks SQLite whether another
// process has committed something (cheap), lists the experiments only then or
// every kListTime, and sends the pages the rows that differ from the last ones
// sent. A page that is told of a change asks for it itself. Times of records
// are those of the runner before its commit, so a change may become visible
// after a later time was read; kMargin makes answers overlap by that much.
//
// --control does not change the store here: it runs the dtrain command that a
// user would run, and answers when its process ends.

#include "engine/app/live_page.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/app/build_info.h"
#include "engine/app/experiment_data.h"
#include "engine/app/stores.h"
#include "engine/app/trial_fields.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/installation.h"
#include "engine/os/spawn.h"
#include "engine/os/system_error.h"
#include "engine/page/bundle.h"
#include "engine/page/report_page.h"
#include "engine/report/json_view.h"
#include "engine/serve/web_server.h"

namespace dtrain {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kListTime = seconds(2);   // a runner's death changes no data
constexpr auto kSignTime = seconds(15);  // by which pages know a dead tunnel
constexpr auto kMaxAge = seconds(5);     // of a cached experiment
constexpr auto kMargin = seconds(5);     // between an event and its commit
constexpr auto kSlow = milliseconds(50);
constexpr std::size_t kMaxCacheBytes = 16 << 20;
constexpr std::size_t kMaxKnown = 256;  // trials in one request
constexpr int kMaxCommands = 8;
constexpr std::string_view kExperimentPath = "/api/experiment/";

std::pair<std::uint64_t, std::uint64_t> DatabaseIdentity(
    const StoreLayout& layout) {
  struct stat status {};
  if (::stat(layout.Database().c_str(), &status) != 0) return {0, 0};
  return {status.st_dev, status.st_ino};
}

std::string Dump(const json& document) {
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

WebReply JsonReply(int status, const json& document) {
  return {.status = status,
          .type = "application/json",
          .body = Dump(document) + "\n"};
}

WebReply ErrorReply(int status, const std::string& text) {
  return JsonReply(status, {{"error", text}});
}

std::optional<std::int64_t> WholeNumber(std::string_view text) {
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (text.empty() || read.ec != std::errc() || read.ptr != end) return {};
  return number;
}

// The numbers of "12:400:-1"; nothing unless there are `count` of them.
std::optional<std::vector<std::int64_t>> Numbers(const std::string& text,
                                                 std::size_t count) {
  std::vector<std::int64_t> numbers;
  for (const std::string& part : Split(text, ':')) {
    const auto number = WholeNumber(part);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  if (numbers.size() != count) return std::nullopt;
  return numbers;
}

// Parts of "/api/experiment/3/changes": 3, "changes".
struct ExperimentPath {
  std::int64_t id = 0;
  std::string part;  // or empty
};

std::optional<ExperimentPath> ParseExperimentPath(std::string_view path) {
  if (!path.starts_with(kExperimentPath)) return std::nullopt;
  path.remove_prefix(kExperimentPath.size());
  const std::size_t slash = path.find('/');
  const auto id = WholeNumber(path.substr(0, slash));
  if (!id || *id < 1) return std::nullopt;
  ExperimentPath parsed{.id = *id};
  if (slash != path.npos) parsed.part = path.substr(slash + 1);
  const bool known = slash == path.npos || parsed.part == "metrics" ||
                     parsed.part == "changes";
  if (!known) return std::nullopt;
  return parsed;
}

const PageFile* FindPageFile(std::string_view path) {
  for (const PageFile& file : PageFiles()) {
    if (file.path == path) return &file;
  }
  return nullptr;
}

PathClass ClassifyPath(std::string_view path) {
  if (FindPageFile(path) != nullptr) return PathClass::kPage;
  if (path == "/api/control") return PathClass::kControl;
  if (path == "/api/experiments" || path == "/api/events" ||
      ParseExperimentPath(path)) {
    return PathClass::kData;
  }
  return PathClass::kUnknown;
}

std::string EventText(const json& document) {
  return "data: " + Dump(document) + "\n\n";
}

WebReply BundleReply(const Bundle& bundle, json document) {
  document["version"] = 1;
  document["dtrain"] = kVersion;
  document["redacted"] = false;
  document["fields"] = TrialColumnsJson();
  return {.type = "application/octet-stream",
          .body = Gzip(bundle.Finish(document)),
          .gzip = true};
}

WebReply BadRequest(const std::string& what) {
  return ErrorReply(400, "cannot read '" + what + "' of this request");
}

// ---- Commands of --control.

// Returns a text field of a request; empty if it is missing.
std::string ReadText(const json& body, const char* name) {
  const auto found = body.find(name);
  if (found == body.end()) return "";
  if (!found->is_string()) {
    throw Error(ErrorKind::kUsage, std::string(name) + ": expected a string");
  }
  return found->get<std::string>();
}

std::string ReadTarget(const json& body, bool may_be_trial) {
  const auto number = [&](const char* name) {
    const auto found = body.find(name);
    if (found == body.end() || !found->is_number_unsigned() || *found == 0) {
      throw Error(ErrorKind::kUsage,
                  std::string(name) + ": expected a number such as 3");
    }
    return std::to_string(found->get<std::uint64_t>());
  };
  std::string target = number("experiment");
  if (body.contains("trial")) {
    if (!may_be_trial) {
      throw Error(ErrorKind::kUsage,
                  "trial: only kill, note and star take a trial");
    }
    target += "." + number("trial");
  }
  return target;
}

// Returns the words of the command that a request asks for. Throws
// Error(kUsage).
std::vector<std::string> ParseControl(const json& body) {
  if (!body.is_object()) {
    throw Error(ErrorKind::kUsage, "expected an object with 'action'");
  }
  const std::string action = ReadText(body, "action");
  const std::string target = ReadTarget(
      body, action == "kill" || action == "note" || action == "star");
  if (action == "pause" || action == "cancel" || action == "kill") {
    return {action, target, "--no-wait"};
  }
  if (action == "resume") return {action, target, "--detach"};
  if (action == "label") {
    std::vector<std::string> words = {action, target};
    const std::string add = ReadText(body, "add");
    const std::string remove = ReadText(body, "remove");
    if (!add.empty()) words.push_back("--add=" + add);
    if (!remove.empty()) words.push_back("--remove=" + remove);
    return words;
  }
  if (action == "note") {
    const std::string text = ReadText(body, "text");
    if (text.find('\0') != text.npos) {
      throw Error(ErrorKind::kUsage, "text: has a NUL character");
    }
    if (text.empty()) return {action, target, "--clear"};
    return {action, "--", target, text};
  }
  if (action == "star") {
    std::vector<std::string> words = {action, target};
    if (ReadText(body, "remove") == "true") words.push_back("--remove");
    return words;
  }
  throw Error(
      ErrorKind::kUsage,
      "action: expected pause, resume, cancel, kill, label, note or star");
}

// The message of a command that failed.
std::string ExtractError(const std::string& output) {
  std::string_view text = Trim(output);
  constexpr std::string_view kMark = "dtrain: error: ";
  if (const auto at = text.find(kMark); at != text.npos) {
    text.remove_prefix(at + kMark.size());
  }
  return std::string(text);
}

// Returns the first 64 KiB of a command's output.
std::string ReadOutput(int file) {
  std::string text(64 << 10, '\0');
  const ssize_t count = ::pread(file, text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

LivePage::LivePage(StoreLayout layout, WebRules rules, GlobalOptions globals)
    : layout_(std::move(layout)),
      rules_(std::move(rules)),
      globals_(std::move(globals)),
      store_(Store::OpenForReading(layout_)) {}

std::optional<WebReply> LivePage::Answer(WebServer& server,
                                         std::uint64_t exchange,
                                         const WebRequest& request) {
  if (auto refusal = Refusal(request, ClassifyPath(request.path), rules_)) {
    return refusal;
  }
  if (const PageFile* file = FindPageFile(request.path)) {
    return WebReply{.type = std::string(file->type),
                    .body = std::string(file->text)};
  }
  try {
    if (request.path == "/api/control") {
      return StartCommand(server, exchange, request.body);
    }
    if (request.path != "/api/events") return AnswerData(request);
    if (server.streams() >= kMaxStreams) {
      return ErrorReply(503, std::to_string(kMaxStreams) +
                                 " pages are open already; close one");
    }
    const bool is_alone = server.streams() == 0;
    if (is_alone) ReopenIfReplaced();
    return WebReply{.type = "text/event-stream",
                    .body = FirstEvent(/*to_all=*/is_alone),
                    .stream = true};
  } catch (const Error& error) {
    switch (error.kind()) {
      case ErrorKind::kNotFound:
        return ErrorReply(404, error.what());
      case ErrorKind::kUsage:
        return ErrorReply(400, error.what());
      default:
        return ErrorReply(503, error.what());
    }
  } catch (const std::bad_alloc&) {
    return ErrorReply(503, "out of memory; free some, then try again");
  } catch (const std::exception& error) {
    return ErrorReply(500, error.what());
  }
}

// Notices a change of the store, after which cached replies are old.
void LivePage::UpdateVersion() {
  const Timestamp now = Clock::System().now();
  const std::int64_t version = store_.DataVersion();
  if (version == version_) return;
  version_ = version;
  version_time_ = now;
  const Duration oldest = Clock::System().monotonic() - kMaxAge;
  std::erase_if(cache_, [&](const auto& one) {
    // A large search is slow to read and changes all the time: its last reading
    // is good enough for kMaxAge, or each page would read it again at each
    // change.
    return !one.second.may_be_old || one.second.built < oldest;
  });
}

WebReply LivePage::AnswerData(const WebRequest& request) {
  UpdateVersion();
  const std::string key = request.path + "?" + request.query;
  const auto found = cache_.find(key);
  if (found != cache_.end()) return found->second.reply;
  const Duration start = Clock::System().monotonic();
  WebReply reply = ReadData(request);
  const Duration end = Clock::System().monotonic();
  if (reply.status != 200) return reply;
  std::size_t bytes = reply.body.size();
  for (const auto& [name, one] : cache_) bytes += one.reply.body.size();
  if (bytes > kMaxCacheBytes) cache_.clear();
  if (reply.body.size() <= kMaxCacheBytes) {
    const bool is_whole = request.path.starts_with(kExperimentPath) &&
                          ParseExperimentPath(request.path)->part.empty();
    cache_[key] = {.reply = reply,
                   .built = end,
                   .may_be_old = is_whole && end - start > kSlow};
  }
  return reply;
}

WebReply LivePage::ReadData(const WebRequest& request) {
  if (request.path == "/api/experiments") return JsonReply(200, ListJson());
  const ExperimentPath path = *ParseExperimentPath(request.path);
  if (path.part == "metrics") return Metrics(path.id, request.query);
  if (path.part == "changes") return Changes(path.id, request.query);
  return Experiment(path.id);
}

WebReply LivePage::Experiment(std::int64_t id) {
  Bundle bundle;
  const std::int64_t read = version_time_.count();
  const ExperimentDetail detail = FindExperimentDetail(store_, id);
  json data = ExperimentData(store_, detail, {.without_metrics = true}, bundle);
  return BundleReply(bundle, {{"read", read},
                              {"experiments", json::array({std::move(data)})}});
}

WebReply LivePage::Metrics(std::int64_t id, const std::string& query) {
  MetricPlace place;
  if (const auto from = QueryValue(query, "from")) {
    const auto numbers = Numbers(*from, 3);
    if (!numbers || (*numbers)[1] < 0 || (*numbers)[1] > 1) {
      return BadRequest("from");
    }
    place = {.trial = (*numbers)[0],
             .kind = (*numbers)[1] == 0 ? MetricKind::kTraining
                                        : MetricKind::kValidation,
             .after = (*numbers)[2]};
  }
  Bundle bundle;
  json metrics =
      ExperimentMetrics(store_, FindExperiment(store_, id), place, bundle);
  return BundleReply(bundle, {{"metrics", std::move(metrics)}});
}

WebReply LivePage::Changes(std::int64_t id, const std::string& query) {
  const auto since = WholeNumber(QueryValue(query, "since").value_or(""));
  if (!since) return BadRequest("since");
  std::vector<KnownTrial> known;
  if (const auto text = QueryValue(query, "known")) {
    for (const std::string& part : Split(*text, ',')) {
      const auto numbers = Numbers(part, 3);
      if (!numbers || known.size() == kMaxKnown) return BadRequest("known");
      known.push_back({.number = (*numbers)[0],
                       .training = (*numbers)[1],
                       .validation = (*numbers)[2]});
    }
  }
  Bundle bundle;
  const std::int64_t read = version_time_.count();
  const ExperimentDetail detail = FindExperimentDetail(store_, id);
  json data = ExperimentChanges(store_, detail, Timestamp(*since) - kMargin,
                                known, bundle);
  return BundleReply(bundle, {{"read", read},
                              {"experiments", json::array({std::move(data)})}});
}

// ---- Events.

nlohmann::json LivePage::ListJson() {
  json experiments = json::array();
  for (const ExperimentRow& row : ListExperiments(store_, true)) {
    experiments.push_back(ExperimentJson(row, row.seconds));
  }
  return {{"dtrain", kVersion},
          {"control", rules_.control},
          {"problem", problem_},
          {"store",
           std::to_string(place_.first) + ":" + std::to_string(place_.second)},
          {"experiments", std::move(experiments)}};
}

std::string LivePage::FirstEvent(bool to_all) {
  json list = ListJson();
  if (to_all) {
    sent_.clear();
    for (const json& row : list["experiments"]) {
      sent_[row["id"].get<std::int64_t>()] = Dump(row);
    }
  }
  list["all"] = true;
  return EventText(list);
}

// Returns an event of the experiments that have changed; empty if none has.
std::string LivePage::NextEvent(bool data_changed) {
  json rows = json::array(), changed = json::array(), removed = json::array();
  std::map<std::int64_t, std::string> now;
  for (const ExperimentRow& row : ListExperiments(store_, true)) {
    json shown = ExperimentJson(row, row.seconds);
    std::string text = Dump(shown);
    const auto before = sent_.find(row.id);
    const bool differs = before == sent_.end() || before->second != text;
    if (differs) {
      // The page is about to ask for it, and must not get what was cached
      // before.
      cache_.erase(std::string(kExperimentPath) + std::to_string(row.id) + "?");
      rows.push_back(std::move(shown));
    }
    if (differs || (data_changed && !IsFinal(row.state))) {
      changed.push_back(row.id);
    }
    now[row.id] = std::move(text);
  }
  for (const auto& [id, text] : sent_) {
    if (!now.contains(id)) removed.push_back(id);
  }
  sent_ = std::move(now);
  if (changed.empty() && removed.empty()) return "";
  return EventText({{"experiments", std::move(rows)},
                    {"changed", std::move(changed)},
                    {"removed", std::move(removed)},
                    {"problem", problem_}});
}

void LivePage::ReopenIfReplaced() {
  const Place place = DatabaseIdentity(layout_);
  if (place != place_) {
    version_ = -1;
    cache_.clear();
    store_ = Store::OpenForReading(layout_);
    place_ = store_.WasMissing() ? Place() : place;
  }
  const std::string root = layout_.root().string();
  problem_.clear();
  if (place_ == Place()) {
    problem_ = "there is no store in " + root +
               " now; the page shows it as soon as there is one";
  } else if (store_.IsCopy()) {
    problem_ = "store " + root +
               " was written by an older dtrain and cannot be migrated now; "
               "this page shows a copy that does not change";
  }
}

void LivePage::Poll(WebServer& server) {
  const Clock clock = Clock::System();
  const Duration now = clock.monotonic();
  if (server.streams() == 0 || now < next_poll_) return;
  std::string event;
  try {
    if (now >= next_place_) {
      const std::string before = problem_;
      const auto place = place_;
      next_place_ = now + seconds(1);
      ReopenIfReplaced();
      if (place != place_ || before != problem_) {
        event = FirstEvent(/*to_all=*/true);
      }
    }
    const bool data_changed = store_.ChangedByOthers();
    if (event.empty() && (data_changed || now >= next_list_)) {
      next_list_ = now + kListTime;
      UpdateVersion();
      event = NextEvent(data_changed);
    }
  } catch (const std::exception& error) {
    if (problem_ != error.what()) {
      problem_ = error.what();
      event = EventText({{"problem", problem_}});
    }
  }
  if (event.empty() && now >= next_sign_) event = ": alive\n\n";
  if (!event.empty()) {
    next_sign_ = now + kSignTime;
    server.SendToStreams(event);
  }
  // Reading takes at most a tenth of the time.
  next_poll_ = now + 10 * (clock.monotonic() - now);
}

// ---- Control.

std::optional<WebReply> LivePage::StartCommand(WebServer& server,
                                               std::uint64_t exchange,
                                               const std::string& body) {
  const json parsed = json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return ErrorReply(400, "the body is not JSON");
  std::vector<std::string> words = {"dtrain", "--store",
                                    layout_.root().string()};
  if (globals_.allow_network_fs) words.emplace_back("--allow-network-fs");
  for (std::string& word : ParseControl(parsed))
    words.push_back(std::move(word));
  if (commands_ >= kMaxCommands) {
    return ErrorReply(503, "too many requests are being executed; try again");
  }
  // Read at the end of the command, which would wait for the reader of a pipe.
  UniqueFd output(::memfd_create("control-output", MFD_CLOEXEC));
  if (!output) ThrowSystemError("make a file in memory");
  const pid_t pid = Spawn()
                        .ResetSignals()
                        .Open(STDIN_FILENO, "/dev/null", O_RDONLY)
                        .Duplicate(output.get(), STDOUT_FILENO)
                        .Duplicate(output.get(), STDERR_FILENO)
                        .CloseFrom(STDERR_FILENO + 1)
                        .Run(OwnProgram(), words);
  if (pid < 0) return ErrorReply(503, "cannot start the command");
  struct Command {
    UniqueFd end;
    UniqueFd output;
  };
  auto command =
      std::make_shared<Command>(Command{OpenExitFd(pid), std::move(output)});
  if (!command->end) {
    const std::string why = ErrnoText();
    ::kill(pid, SIGKILL);
    AwaitExit(pid);
    return ErrorReply(
        503, "cannot watch the command: " + why + "; run it in a terminal");
  }
  server.WhenReadable(
      command->end.get(), [this, &server, exchange, command, pid] {
        --commands_;
        const ExitStatus status = AwaitExit(pid);
        const std::string text = ReadOutput(command->output.get());
        server.Reply(exchange, status.code == 0
                                   ? JsonReply(200, {{"output", text}})
                                   : ErrorReply(409, ExtractError(text)));
      });
  ++commands_;
  return std::nullopt;
}

}  // namespace dtrain
