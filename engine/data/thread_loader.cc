#include "engine/data/thread_loader.h"

#include <algorithm>
#include <utility>

#include "engine/data/seeds.h"
#include "engine/os/signals.h"

// Workers take tasks in the order of batches and load them in parallel; Read
// returns the results in that order. At most `depth_` batches are ahead of the
// reader. A Seek starts a new generation, and the results of tasks from earlier
// generations are discarded.

namespace dtrain {

namespace {

// Pinned memory cannot be swapped out. One batch for each worker and two spare
// ones keep all workers busy.
std::int64_t QueueDepth(const LoaderOptions& options) {
  const std::int64_t workers = std::max(options.workers, 1);
  const std::int64_t depth = workers * std::max(options.prefetch, 1);
  return options.pinned ? std::min(depth, workers + 2) : depth;
}

}  // namespace

ThreadLoader::ThreadLoader(const SamplerOptions& samples, LoadBatch load,
                           LoaderOptions options)
    : options_(samples),
      load_(std::move(load)),
      depth_(QueueDepth(options)),
      workers_(std::max(options.workers, 0)),
      is_pinned_(options.pinned),
      sampler_(samples) {}

ThreadLoader::~ThreadLoader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::int64_t ThreadLoader::BatchesPerEpoch() const {
  return sampler_.BatchesPerEpoch();
}

std::int64_t ThreadLoader::SamplesPerEpoch() const {
  return sampler_.SamplesPerEpoch();
}

void ThreadLoader::Seek(std::int64_t index) {
  {
    const std::lock_guard lock(mutex_);
    if (index == next_read_) return;  // loaded batches stay valid
    ++generation_;
    loaded_.clear();
    sampler_.Seek(index);
    next_task_ = next_read_ = last_read_ = index;
  }
  work_.notify_all();
}

Batch ThreadLoader::Read() {
  Loaded loaded;
  if (workers_ == 0) {
    const std::lock_guard lock(mutex_);
    const Task task = NextTask();
    ++next_read_;
    loaded = Load(task);
  } else {
    if (threads_.empty()) StartWorkers();
    std::unique_lock lock(mutex_);
    // The reader has come to this pass, so workers may load to its end.
    last_read_ = next_read_;
    work_.notify_all();
    done_.wait(lock, [&] { return loaded_.contains(next_read_); });
    loaded = std::move(loaded_.extract(next_read_).mapped());
    ++next_read_;
    lock.unlock();
    work_.notify_one();
  }
  if (loaded.failure) std::rethrow_exception(loaded.failure);
  return std::move(loaded.batch);
}

void ThreadLoader::StartWorkers() {
  const SignalsBlocked blocked;
  for (int i = 0; i < workers_; ++i) threads_.emplace_back([this] { Work(); });
}

void ThreadLoader::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stop_ || MayLoadAhead(); });
    if (stop_) return;
    const Task task = NextTask();
    lock.unlock();
    Loaded loaded = Load(task);
    lock.lock();
    if (task.generation != generation_) continue;  // a Seek has invalidated it
    loaded_[task.batch] = std::move(loaded);
    done_.notify_one();
  }
}

// The passes of a set that does not wrap are read one at a time, with a Seek in
// between. Batches loaded beyond the end of a pass would be discarded.
bool ThreadLoader::MayLoadAhead() const {
  if (next_task_ >= next_read_ + depth_) return false;
  if (options_.wrap) return true;
  const std::int64_t pass = std::max<std::int64_t>(BatchesPerEpoch(), 1);
  return next_task_ < (last_read_ / pass + 1) * pass;
}

ThreadLoader::Task ThreadLoader::NextTask() {
  const BatchSampler::Indices indices = sampler_.Next();
  ++next_task_;
  return {.generation = generation_,
          .batch = indices.batch,
          .pass = indices.pass,
          .samples = {indices.samples.begin(), indices.samples.end()}};
}

ThreadLoader::Loaded ThreadLoader::Load(const Task& task) const {
  Loaded loaded;
  try {
    loaded.batch = load_(task.samples, PassSeed(options_.seed, task.pass));
    if (is_pinned_) loaded.batch = loaded.batch.Pinned();
  } catch (...) {
    loaded.failure = std::current_exception();
  }
  return loaded;
}

}  // namespace dtrain
