#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "engine/base/clock.h"
#include "engine/config/experiment_config.h"
#include "engine/process/launcher.h"
#include "engine/run/outbox.h"
#include "engine/run/reporter.h"
#include "engine/run/runner.h"
#include "engine/store/store.h"

namespace dtrain {

/// What an Experiment works with; all must outlive it.
struct ExperimentDoors {
  Store& store;
  Launcher& launcher;
  Reporter& reporter;
  Clock clock;
};

/// How the experiment's trials are run.
struct ExperimentSetup {
  std::int64_t id = 0;
  ExperimentConfig config;
  std::uint32_t seed = 0;
  RunOptions options;
  RunInfo info;
  // The experiment fails where its first trial has not read what is searched.
  bool refuse_unread = false;
  int ranks = 1;           // processes of a trial
  int threads = 1;         // intra-op threads of each
  std::int64_t slots = 1;  // of all trials
  std::int64_t slots_per_trial = 1;
  std::string advice;   // what to tell the user at the start, or empty
  std::string boot_id;  // of this machine, recorded beside pids
  std::string context;  // directory in which commands are executed …
  // … or the stored one, of which each trial has a copy to work in.
  bool stored_context = false;
  // Of the experiment in the store, which has to stay there; empty: nobody
  // looks.
  std::filesystem::path directory;
  // As ExperimentDetail has it, and the experiment's own directory in it.
  std::string storage;
  std::filesystem::path storage_directory;
  // Looking at it never waits for another machine, so the loop may.
  bool watches_storage = true;
  Outbox::Sync sync = Outbox::Sync::kWhereDurable;
};

}  // namespace dtrain
