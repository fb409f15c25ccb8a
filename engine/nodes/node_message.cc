#include "engine/nodes/node_message.h"

#include <algorithm>
#include <csignal>
#include <limits>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/json_depth.h"
#include "engine/base/text.h"
#include "engine/ranks/peer_proof.h"
#include "engine/wire/json_fields.h"

namespace dtrain {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxSignal = 64;
constexpr std::int64_t kMaxInt = std::numeric_limits<int>::max();

json ToJson(TrialId id) { return {id.experiment, id.number}; }

TrialId TrialOf(const JsonFields& fields) {
  const json& pair = fields.At("trial");
  const bool good = pair.is_array() && pair.size() == 2 &&
                    pair[0].is_number_integer() && pair[1].is_number_integer();
  if (!good) fields.Fail("trial", "two integers");
  return {pair[0].get<std::int64_t>(), pair[1].get<std::int64_t>()};
}

int IntOf(const JsonFields& fields, const char* name) {
  return static_cast<int>(fields.Int(name, -kMaxInt, kMaxInt));
}

// Those that ask a process to end: the runner ends with 128 + the number.
int InterruptOf(const JsonFields& fields) {
  const int signal = IntOf(fields, "signal");
  if (signal != SIGINT && signal != SIGTERM && signal != SIGHUP) {
    fields.Fail("signal", "SIGHUP, SIGINT or SIGTERM");
  }
  return signal;
}

json Fields(const Alive&) { return {{"kind", "alive"}}; }

json Fields(const NodeHello& hello) {
  return {{"kind", "hello"},
          {"rank", hello.rank},
          {"world_size", hello.world_size},
          {"version", hello.identity.version},
          {"configuration", hello.identity.configuration},
          {"ranks", hello.identity.ranks},
          {"gpus", hello.identity.gpus},
          {"trials", hello.trials},
          {"host", hello.host}};
}

json Fields(const PartStarted& started) {
  return {{"kind", "started"}, {"trial", ToJson(started.trial)}};
}

json Fields(const PartPrinted& printed) {
  const LogRecord& record = printed.record;
  return {{"kind", "printed"},
          {"trial", ToJson(printed.trial)},
          {"time", record.time.count()},
          {"rank", record.rank},
          {"stderr", record.from_stderr},
          {"level", LogLevelName(record.level)},
          {"partial", record.partial},
          {"text", record.text}};
}

json Fields(const PartEnded& ended) {
  const TrialExited& exited = ended.exited;
  return {{"kind", "ended"},
          {"trial", ToJson(exited.trial)},
          {"exit_code", exited.exit_code},
          {"signal", exited.signal},
          {"rank", exited.rank},
          {"killed_by_us", exited.killed_by_us},
          {"out_of_memory", exited.out_of_memory},
          {"not_started", exited.not_started},
          {"last_lines", exited.last_lines},
          {"word", ended.word ? json::parse(Encode(*ended.word)) : json()}};
}

json Fields(const NodeInterrupted& interrupted) {
  return {{"kind", "interrupted"}, {"signal", interrupted.signal}};
}

json Fields(const NodeRefused& refused) {
  return {{"kind", "refused"}, {"reason", refused.reason}};
}

json Fields(const NodeWelcomed&) { return {{"kind", "welcomed"}}; }

json Fields(const ExperimentBegun& begun) {
  return {{"kind", "experiment"}, {"experiment", begun.experiment}};
}

json Fields(const StartPart& start) {
  return {{"kind", "start"}, {"spec", start.spec.ToJson()}};
}

json Fields(const StopPart& stop) {
  return {{"kind", "stop"}, {"trial", ToJson(stop.trial)}};
}

json Fields(const KillPart& kill) {
  return {{"kind", "kill"}, {"trial", ToJson(kill.trial)}};
}

json Fields(const Goodbye&) { return {{"kind", "goodbye"}}; }

template <typename Message>
std::string EncodeAny(const Message& message) {
  return std::visit([](const auto& of_kind) { return Fields(of_kind); },
                    message)
             .dump(-1, ' ', false, json::error_handler_t::replace) +
         "\n";
}

NodeHello HelloOf(const JsonFields& fields) {
  return {.rank = IntOf(fields, "rank"),
          .world_size = IntOf(fields, "world_size"),
          .identity = {.version = fields.String("version"),
                       .configuration = fields.String("configuration"),
                       .ranks = IntOf(fields, "ranks"),
                       .gpus = fields.Bool("gpus")},
          .trials = fields.Int("trials", 1),
          .host = fields.String("host")};
}

PartPrinted PrintedOf(const JsonFields& fields) {
  return {.trial = TrialOf(fields),
          .record = {.time = Timestamp(fields.Int("time")),
                     .rank = static_cast<int>(fields.Int("rank", -1, kMaxInt)),
                     .from_stderr = fields.Bool("stderr"),
                     .level = LogLevelFromName(fields.String("level")),
                     .partial = fields.Bool("partial"),
                     .text = fields.String("text")}};
}

PartEnded EndedOf(const JsonFields& fields) {
  PartEnded ended{
      .exited = {
          .trial = TrialOf(fields),
          .exit_code = static_cast<int>(fields.Int("exit_code", -1, 255)),
          .signal = static_cast<int>(fields.Int("signal", 0, kMaxSignal)),
          .rank = static_cast<int>(fields.Int("rank", -1, kMaxInt)),
          .killed_by_us = fields.Bool("killed_by_us"),
          .out_of_memory = fields.Bool("out_of_memory"),
          .not_started = fields.String("not_started")}};
  const json& lines = fields.At("last_lines");
  if (!lines.is_array()) fields.Fail("last_lines", "a list");
  for (const json& line : lines) {
    if (!line.is_string()) fields.Fail("last_lines", "a list of strings");
    ended.exited.last_lines.push_back(line.get<std::string>());
  }
  const json& word = fields.At("word");
  if (word.is_null()) return ended;
  auto message = DecodeTrialMessage(word.dump());
  auto* finished = std::get_if<Finished>(&message);
  if (finished == nullptr) fields.Fail("word", "a trial's last word");
  ended.word = std::move(*finished);
  return ended;
}

// The object in a line, which `decode` gets with its kind.
template <typename Decode>
auto DecodeAny(const std::string& line, const Decode& decode) {
  const json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (NestsDeeperThan(object)) {
    throw Error(ErrorKind::kFailed,
                "a message between machines nests too deep");
  }
  const JsonFields fields(object, "a message between machines");
  const std::string kind = fields.String("kind");
  try {
    return decode(kind, fields);
  } catch (const Error& error) {
    throw Error(ErrorKind::kFailed, error.what());
  }
}

[[noreturn]] void FailKind(const std::string& kind) {
  throw Error(ErrorKind::kFailed, "a message between machines is of a kind '" +
                                      Truncate(EscapeForTerminal(kind), 40) +
                                      "' that there is not");
}

}  // namespace

std::string RankSecret(const std::string& secret, const TrialSpec& spec) {
  return DeriveSecret(secret, "ranks of trial " + ToString(spec.id) + ", " +
                                  spec.address->token);
}

std::string EncodeReport(const NodeReport& report) { return EncodeAny(report); }

std::string EncodeOrder(const NodeOrder& order) { return EncodeAny(order); }

NodeReport DecodeReport(const std::string& line) {
  return DecodeAny(
      line,
      [](const std::string& kind, const JsonFields& fields) -> NodeReport {
        if (kind == "alive") return Alive{};
        if (kind == "hello") return HelloOf(fields);
        if (kind == "started") return PartStarted{TrialOf(fields)};
        if (kind == "printed") return PrintedOf(fields);
        if (kind == "ended") return EndedOf(fields);
        if (kind == "interrupted") {
          return NodeInterrupted{InterruptOf(fields)};
        }
        FailKind(kind);
      });
}

NodeOrder DecodeOrder(const std::string& line) {
  return DecodeAny(
      line, [](const std::string& kind, const JsonFields& fields) -> NodeOrder {
        if (kind == "alive") return Alive{};
        if (kind == "refused") return NodeRefused{fields.String("reason")};
        if (kind == "welcomed") return NodeWelcomed{};
        if (kind == "experiment") {
          return ExperimentBegun{fields.Int("experiment", 1)};
        }
        if (kind == "start") {
          return StartPart{TrialSpec::FromJson(fields.At("spec"))};
        }
        if (kind == "stop") return StopPart{TrialOf(fields)};
        if (kind == "kill") return KillPart{TrialOf(fields)};
        if (kind == "goodbye") return Goodbye{};
        FailKind(kind);
      });
}

NodeChannel::NodeChannel(UniqueFd socket, PeerSession session, std::string peer,
                         std::size_t max_line, Clock clock, Duration silence)
    : peer_(std::move(peer)),
      session_(std::move(session)),
      clock_(std::move(clock)),
      lines_(std::move(socket), peer_, max_line + PeerSession::kSealBytes),
      silence_(silence),
      heard_at_(clock_.monotonic()),
      said_at_(heard_at_) {}

void NodeChannel::Write(const std::string& line) {
  said_at_ = clock_.monotonic();
  lines_.Write(session_.Seal(line.substr(0, line.size() - 1)) + "\n");
}

std::optional<std::string> NodeChannel::Next() {
  std::optional<std::string> line = lines_.NextLine();
  if (!line) return line;
  heard_at_ = clock_.monotonic();
  return session_.Open(*line);
}

void NodeChannel::OnTime(const std::string& alive) {
  const Duration now = clock_.monotonic();
  if (now - heard_at_ >= silence_) {
    throw Error(ErrorKind::kFailed,
                "it was silent for " + FormatDuration(silence_));
  }
  if (now - said_at_ >= kNodeBeat) Write(alive);
}

Duration NodeChannel::Deadline() const {
  return std::min(heard_at_ + silence_, said_at_ + kNodeBeat);
}

}  // namespace dtrain
