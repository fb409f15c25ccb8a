#include "tests/engine/program/command_trial_fixture.h"

#include <csignal>
#include <fstream>
#include <future>

#include <sys/socket.h>

#include "engine/os/line_reader.h"

namespace dtrain {
namespace {

std::int64_t SeqOfMessage(const TrialMessage& message) {
  return std::visit(
      [](const auto& kind) -> std::int64_t {
        if constexpr (requires { kind.seq; }) return kind.seq;
        return 0;
      },
      message);
}

}  // namespace

CommandTrialTest::CommandTrialTest() {
  std::signal(SIGPIPE, SIG_IGN);
  spec_.id = {1, 1};
  spec_.entrypoint = "sh program.sh";
  spec_.command = {"sh", "program.sh"};
  spec_.context = directory_.path();
  spec_.directory = directory_.path() / "trial";
  spec_.until = Length{10};
  spec_.settings.searcher_metric = "loss";
}

CommandEnd CommandTrialTest::Run(const std::string& script) {
  std::ofstream(directory_.path() / "program.sh") << script;
  std::filesystem::create_directories(spec_.directory);  // as a launcher does
  messages_.clear();
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd runner(ends[0]);
  testing::internal::CaptureStderr();
  auto trial = std::async(std::launch::async, [&] {
    TrialChannel channel(
        UniqueFd(ends[1]),
        // The test lives on after its runner.
        {.orphan_life = std::chrono::hours(1),
         .drain = std::chrono::milliseconds(acknowledges_ ? 5'000 : 10)});
    channel.Start();
    const CommandEnd end =
        CommandTrial(spec_, channel, Clock::System(), limits_).Run();
    channel.Drain();
    return end;
  });
  PlayRunner(runner.get());
  trial.wait();
  log_ = testing::internal::GetCapturedStderr();
  return trial.get();
}

void CommandTrialTest::PlayRunner(int socket) {
  LineReader reader(socket);
  bool open = true;
  while (open) {
    open = reader.Fill();
    while (const auto line = reader.Next()) {
      const TrialMessage message = DecodeTrialMessage(*line);
      messages_.push_back(message);
      if (dies_at_ && dies_at_(message)) {
        ::shutdown(socket, SHUT_RDWR);
        return;
      }
      const std::int64_t seq = SeqOfMessage(message);
      if (seq > 0 && acknowledges_)
        (void)WriteAll(socket, Encode(Acknowledge{seq}));
      const auto answer = answer_ ? answer_(message) : std::nullopt;
      if (answer) (void)WriteAll(socket, Encode(*answer));
    }
  }
}

std::string CommandTrialTest::EndText(const CommandEnd& end) {
  if (!end.finished) return "";
  return std::string(EndReasonName(end.finished->reason)) +
         (end.finished->message.empty() ? "" : ": " + end.finished->message);
}

}  // namespace dtrain
