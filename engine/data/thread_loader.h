#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "engine/base/api.h"
#include "engine/data/batch_sampler.h"
#include "engine/data/data_source.h"

namespace dtrain {

/// Loads the batch of these samples, in their order. Anything random in a
/// sample must come from SampleSeed(`pass_seed`, sample) of
/// engine/data/seeds.h, so that it does not depend on the number of workers and
/// ranks. Called from several threads at once.
using LoadBatch = std::function<Batch(std::span<const std::int64_t> samples,
                                      std::uint64_t pass_seed)>;

struct LoaderOptions {
  int workers = 0;  // threads; 0: loads in the caller's thread
  // Batches ahead for each worker; of pinned ones, at most workers + 2 in all.
  int prefetch = 2;
  // Puts batches into pinned memory, from which a GPU copies while it computes;
  // batches that `load` puts elsewhere are moved there. REQUIRES: a GPU is
  // open.
  bool pinned = false;
  // For MakeImageSource: batches are bytes, a quarter of the memory to copy,
  // and the trainer normalises them on the device (Batch::Normalized).
  bool normalize_on_device = false;
};

/// A DataSource that loads batches in threads, ahead of the reader and in
/// order; for a set that does not wrap, at most to the end of the pass. Threads
/// start at the first Read, never in the constructor. An exception of `load` is
/// thrown by the Read of that batch; the next Read continues with the next
/// batch. The destructor waits for batches in progress.
class DTRAIN_API ThreadLoader final : public DataSource {
 public:
  ThreadLoader(const SamplerOptions& samples, LoadBatch load,
               LoaderOptions options = {});
  ~ThreadLoader() override;
  ThreadLoader(const ThreadLoader&) = delete;
  ThreadLoader& operator=(const ThreadLoader&) = delete;

  std::int64_t BatchesPerEpoch() const override;
  std::int64_t SamplesPerEpoch() const override;
  void Seek(std::int64_t index) override;
  Batch Read() override;

 private:
  // Work of one worker: the batch's samples, number and pass. A Seek
  // invalidates tasks in progress by incrementing `generation`.
  struct Task {
    std::int64_t generation = 0;
    std::int64_t batch = 0;
    std::int64_t pass = 0;
    std::vector<std::int64_t> samples;
  };
  struct Loaded {
    Batch batch;
    std::exception_ptr failure;
  };

  void StartWorkers();
  void Work();
  Loaded Load(const Task& task) const;
  Task NextTask();
  bool MayLoadAhead() const;

  const SamplerOptions options_;
  const LoadBatch load_;
  const std::int64_t depth_;  // maximum number of batches ahead of the reader
  const int workers_;
  const bool is_pinned_;

  std::mutex mutex_;  // guards all members below
  std::condition_variable work_;
  std::condition_variable done_;
  BatchSampler sampler_;
  std::int64_t generation_ = 0;
  std::int64_t next_task_ = 0;  // next batch for a worker
  std::int64_t next_read_ = 0;  // next batch for Read
  std::int64_t last_read_ = 0;  // batch of the last call of Read
  std::map<std::int64_t, Loaded> loaded_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace dtrain
