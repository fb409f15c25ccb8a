// FaultTrial: a trial that fails on demand, at a given step and in a given way,
// for tests of the runner.
//
// Its metrics are a closed formula of the hyperparameter x and the step, so a
// test can tell whether a recovered trial has trained the right steps. With
// `once` a fault happens in the first run only, and the restart succeeds.
// Functions that end or block the process are at the top; the list of faults is
// in ReadFaults and Misbehave.

#include "models/fault.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <thread>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <torch/optim.h>

#include "engine/os/line_reader.h"
#include "engine/train/torch_modules.h"

namespace dtrain {

namespace {

// Unbuffered, so that nothing is lost in a crash. Write errors are ignored.
void WriteOut(std::string_view text) { (void)WriteAll(STDOUT_FILENO, text); }

}  // namespace

void ExitNow(int code) { ::_exit(code); }

void Hang() {
  while (true) ::pause();
}

void IgnoreTerm() { ::signal(SIGTERM, SIG_IGN); }

void SleepMilliseconds(double milliseconds) {
  std::this_thread::sleep_for(
      std::chrono::duration<double, std::milli>(milliseconds));
}

std::vector<std::uint8_t> HoldMemory(std::int64_t mebibytes) {
  // Not zeros, which the kernel could share.
  return std::vector<std::uint8_t>(static_cast<std::size_t>(mebibytes) << 20,
                                   std::uint8_t{0x5A});
}

void FloodLog(std::int64_t bytes, std::int64_t line) {
  constexpr std::int64_t kChunk = 1 << 16;
  // Whole lines: as many as fit into a chunk, at least one.
  std::string text(static_cast<std::size_t>(std::max(line, kChunk)), 'x');
  if (line > 0) {
    text.resize(text.size() / line * line);
    for (auto end = line; end <= std::ssize(text); end += line) {
      text[static_cast<std::size_t>(end - 1)] = '\n';
    }
  }
  while (bytes > 0) {
    const auto count = std::min<std::int64_t>(bytes, std::ssize(text));
    WriteOut(std::string_view(text).substr(0, static_cast<std::size_t>(count)));
    bytes -= count;
  }
}

void WriteHex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    unsigned char byte = 0;
    const char* end = hex.data() + std::min(i + 2, hex.size());
    const auto [rest, error] = std::from_chars(hex.data() + i, end, byte, 16);
    if (error != std::errc() || rest != hex.data() + i + 2) {
      throw std::invalid_argument("'" + hex + "' is not pairs of hex digits");
    }
    bytes += static_cast<char>(byte);
  }
  WriteOut(bytes);
}

void SpawnDaemon() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    if (::fork() == 0) {
      ::execl("/bin/sleep", "sleep", "600", static_cast<char*>(nullptr));
    }
    ::_exit(0);
  }
  if (child > 0) ::waitpid(child, nullptr, 0);
}

namespace {

// A source that returns one batch again and again, without allocation.
class SameBatch final : public DataSource {
 public:
  SameBatch(std::int64_t samples, std::int64_t batches)
      : batch_{.data = torch::zeros({1}).expand({samples})},
        batches_(batches) {}

  std::int64_t BatchesPerEpoch() const override { return batches_; }
  std::int64_t SamplesPerEpoch() const override {
    return batches_ * batch_.size();
  }
  void Seek(std::int64_t) override {}
  Batch Read() override { return batch_; }

 private:
  Batch batch_;
  std::int64_t batches_;
};

// Step of a fault, or −1 if it is not requested.
std::int64_t ReadStep(const TrialContext& context, const std::string& name) {
  const auto at = context.Get<std::int64_t>(name, -1);
  if (at >= -1) return at;
  throw InvalidHyperparameters("hyperparameter '" + name +
                               "' is negative; steps count from 0");
}

std::int64_t Count(const TrialContext& context, const std::string& name,
                   std::int64_t fallback, std::int64_t min) {
  const auto count = context.Get<std::int64_t>(name, fallback);
  if (count >= min) return count;
  throw InvalidHyperparameters("hyperparameter '" + name + "' is below " +
                               std::to_string(min));
}

torch::Tensor Scalar(double value) {
  return torch::scalar_tensor(value, torch::kDouble);
}

// Loss of a label that is not a class. On a CPU it throws; on a GPU it triggers
// a device-side assertion, which the next operation that waits for the GPU
// reports.
torch::Tensor LossOfInvalidLabel(torch::Device device) {
  constexpr std::int64_t kClasses = 2;
  const auto scores = torch::zeros({1, kClasses}, torch::device(device));
  const auto labels =
      torch::full({1}, kClasses, torch::device(device).dtype(torch::kInt64));
  return torch::nll_loss(scores, labels).to(torch::kDouble);
}

}  // namespace

FaultTrial::FaultTrial(TrialContext& context)
    : context_(context),
      x_(context.Get<double>("x", 0)),
      step_ms_(context.Get<double>("step_ms", 0)) {
  const std::int64_t extra = Count(context, "metrics", 0, 0);
  for (std::int64_t i = 0; i < extra; ++i) {
    extra_.push_back("metric_" + std::to_string(i));
  }
  if (const auto mebibytes = Count(context, "ckpt_mb", 0, 0); mebibytes > 0) {
    ballast_ = torch::arange(mebibytes << 17, torch::kInt64);
  }
  const bool once = context.Get<bool>("once", true);
  if (once && context.run() > 0) return;
  ReadFaults();
  Misbehave();
  BeginStep(0);
}

std::unique_ptr<DataSource> FaultTrial::TrainingData() {
  return std::make_unique<SameBatch>(
      Count(context_, "global_batch_size", 1, 1),
      Count(context_, "batches_per_epoch", 100, 1));
}

std::unique_ptr<DataSource> FaultTrial::ValidationData() {
  return std::make_unique<SameBatch>(/*samples=*/1, /*batches=*/1);
}

Metrics FaultTrial::TrainBatch(const Batch&, BatchIndex index) {
  const std::int64_t step = index.batch + 1;
  BeginStep(step);
  if (step_ms_ > 0) SleepMilliseconds(step_ms_);
  Metrics metrics = Measure(step);
  // The trainer reports `lr`, too: two values under one name.
  if (step == dup_metric_at_) metrics["lr"] = Scalar(x_);
  return metrics;
}

Metrics FaultTrial::EvaluateBatch(const Batch&) {
  return Measure(context_.batches());
}

std::map<std::string, torch::Tensor> FaultTrial::Save() {
  if (!ballast_.defined()) return {};
  return {{"ballast", ballast_}};
}

void FaultTrial::Load(const std::map<std::string, torch::Tensor>& state) {
  const auto ballast = state.find("ballast");
  const bool same =
      ballast == state.end()
          ? !ballast_.defined()
          : ballast_.defined() && torch::equal(ballast->second, ballast_);
  // A checkpoint that lost bytes must be detected.
  if (!same) throw std::runtime_error("the checkpoint's ballast is damaged");
}

void FaultTrial::ReadFaults() {
  const auto add = [&](const char* name, std::function<void()> act) {
    const std::int64_t at = ReadStep(context_, name);
    if (at >= 0) faults_.push_back({.at = at, .act = std::move(act)});
  };
  const auto code = context_.Get<int>("exit_code", 1);
  add("crash_at", [code] { ExitNow(code); });
  add("abort_at", [] { std::abort(); });
  add("hang_at", [] { Hang(); });
  add("invalid_hp_at", [] {
    throw InvalidHyperparameters(
        "the step of the hyperparameter 'invalid_hp_at' has come");
  });
  nan_at_ = ReadStep(context_, "nan_at");
  inf_at_ = ReadStep(context_, "inf_at");
  skip_metric_at_ = ReadStep(context_, "skip_metric_at");
  dup_metric_at_ = ReadStep(context_, "dup_metric_at");
  invalid_label_at_ = ReadStep(context_, "label_out_of_range_at");
}

void FaultTrial::BeginStep(std::int64_t step) const {
  for (const Fault& fault : faults_) {
    if (fault.at == step) fault.act();
  }
}

// Faults without a step.
void FaultTrial::Misbehave() {
  if (context_.Get<bool>("ignore_term", false)) IgnoreTerm();
  held_ = HoldMemory(Count(context_, "rss_mb", 0, 0));
  if (const auto mebibytes = Count(context_, "device_mb", 0, 0);
      mebibytes > 0) {
    held_on_device_ =
        torch::empty({mebibytes << 20},
                     torch::device(context_.device()).dtype(torch::kUInt8));
  }
  if (context_.Get<bool>("spawn_daemon", false)) SpawnDaemon();
  if (const auto hex = context_.Get<std::string>("log_hex", ""); !hex.empty()) {
    try {
      WriteHex(hex);
    } catch (const std::invalid_argument& error) {
      throw InvalidHyperparameters(std::string("hyperparameter 'log_hex': ") +
                                   error.what());
    }
  }
  FloodLog(Count(context_, "log_bytes", 0, 0),
           Count(context_, "log_line", 80, 0));
  if (dup_metric_at_ >= 0) {
    // A model with an optimizer, so that the trainer reports a learning rate.
    const auto model = std::make_shared<torch::nn::LinearImpl>(1, 1);
    context_.Add(model);
    context_.Add(std::make_shared<torch::optim::SGD>(
        model->parameters(), torch::optim::SGDOptions(/*lr=*/0.5)));
  }
}

Metrics FaultTrial::Measure(std::int64_t step) const {
  double loss =
      (x_ - 0.3) * (x_ - 0.3) + 1 / (1 + static_cast<double>(step) / 100);
  if (step == nan_at_) loss = std::numeric_limits<double>::quiet_NaN();
  if (step == inf_at_) loss = std::numeric_limits<double>::infinity();
  Metrics metrics;
  metrics.emplace("acc", Scalar(1 - loss));
  if (step == invalid_label_at_) {
    metrics.emplace("loss", LossOfInvalidLabel(context_.device()));
  } else if (step != skip_metric_at_) {
    metrics.emplace("loss", Scalar(loss));
  }
  for (std::size_t i = 0; i < extra_.size(); ++i) {
    metrics.emplace(extra_[i], Scalar(loss + static_cast<double>(i)));
  }
  return metrics;
}

std::unique_ptr<Trial> MakeFaultTrial(TrialContext& context) {
  return std::make_unique<FaultTrial>(context);
}

}  // namespace dtrain
