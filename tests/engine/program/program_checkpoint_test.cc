#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/program/program.h"
#include "tests/support/field_names.h"
#include "tests/support/patience.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using nlohmann::json;

constexpr char kUuid[] = "cccccccc-6f4c-4a38-9d6c-3f1a5b2c7d8e";

json AllFields(const std::optional<MetricPoint>& point) {
  if (!point) return nullptr;
  const auto& [batches, metrics] = *point;
  return {batches, metrics};
}

json AllFields(const std::map<std::string, MetricSum>& sums) {
  json fields = json::object();
  for (const auto& [name, sum] : sums) {
    const auto& [total, weight, occasional] = sum;
    fields[name] = {total, weight, occasional};
  }
  return fields;
}

// Returns all fields by name. Does not compile where one is missing.
json AllFields(const ProgramState& state) {
  const auto& [trainer, epoch, count] = state;
  const auto& [batches, sums, last_training, last_validation, best_validation,
               ended, early_stop, unacknowledged] = trainer;
  json messages = json::array();
  for (const TrialMessage& message : unacknowledged) {
    messages.push_back(Encode(message));
  }
  return {
      {"epoch", epoch},
      {"count", count},
      {"batches", batches},
      {"sums", AllFields(sums)},
      {"last_training", AllFields(last_training)},
      {"last_validation", AllFields(last_validation)},
      {"best_validation", best_validation ? json(*best_validation) : json()},
      {"ended", ended},
      {"early_stop", early_stop},
      {"unacknowledged", messages}};
}

TEST(ProgramCheckpointTest, EveryFieldRoundTrips) {
  const ProgramState state = {
      .trainer = {.batches = 150,
                  .sums = {{"acc", {.total = 0.1 + 0.2, .weight = 3}},
                           {"loss",
                            {.total = 4, .weight = 2, .occasional = true}}},
                  .last_training = MetricPoint{100, {{"loss", 1.0 / 3}}},
                  .last_validation = MetricPoint{120, {{"acc", 0.5}}},
                  .best_validation = 0.7 - 0.6,
                  .ended = "enough",
                  .early_stop = {{"waited", 2}},
                  .unacknowledged = {TrainingReport{.seq = 3, .batches = 100},
                                     ValidationReport{.seq = 4, .batches = 120},
                                     ProfileReport{.seq = 5, .batches = 130},
                                     CheckpointSaved{.seq = 6, .uuid = kUuid}}},
      .epoch = 1.5,
      .count = 96};
  const TemporaryDirectory directory;
  const auto source = directory.path() / "weights";
  std::ofstream(source) << "of the program";
  const std::string path = directory.path() / "checkpoints" / "uuid";

  SaveProgramCheckpoint(path, source, state, {});

  EXPECT_EQ(AllFields(LoadProgramCheckpoint(path)), AllFields(state));
  EXPECT_THAT(EqualFields(AllFields(state), AllFields(ProgramState{})),
              testing::IsEmpty());
}

// A program that writes on has not finished its checkpoint, and may write
// within a second as many bytes as before.
TEST(ProgramCheckpointTest, AFileThatIsWrittenMeanwhileIsRefused) {
  const TemporaryDirectory directory;
  const auto source = directory.path() / "weights";
  std::ofstream(source) << std::string(1 << 20, 'x');
  std::atomic<bool> done = false;
  std::atomic<std::int64_t> writes = 0;
  std::thread program([&] {
    while (!done) {
      timespec times[2] = {};
      times[1] = {.tv_sec = 7, .tv_nsec = ++writes % 1'000'000'000};
      ::utimensat(AT_FDCWD, source.c_str(), times, 0);
    }
  });
  while (writes == 0) std::this_thread::yield();
  std::string refusal;
  const auto end =
      std::chrono::steady_clock::now() + Patient(std::chrono::seconds(60));
  for (int i = 0; refusal.empty() && std::chrono::steady_clock::now() < end;
       ++i) {
    try {
      SaveProgramCheckpoint(directory.path() / "c" / std::to_string(i), source,
                            {}, {});
    } catch (const Error& error) {
      refusal = error.what();
    }
  }
  done = true;
  program.join();
  EXPECT_THAT(refusal, testing::HasSubstr("was changed while it was copied"));
}

}  // namespace
}  // namespace dtrain
