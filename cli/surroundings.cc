#include "cli/surroundings.h"

#include <string>

#include "cli/output.h"
#include "engine/slots/slots.h"

namespace dtrain {
namespace {

using nlohmann::json;

std::string TextOf(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_null() ? "unknown" : value.dump();
}

// Of `a` and `b`, where they differ.
void SayDifference(const std::string& what, const json& before, const json& now,
                   const GlobalOptions& globals) {
  if (before == now) return;
  Say(globals, "warning: " + what + " was " + TextOf(before) + ", now it is " +
                   TextOf(now) + "; the numbers may differ");
}

json Member(const json& object, const std::string& name) {
  return object.is_object() ? object.value(name, json()) : json();
}

json GpuNames(const json& provenance) {
  json names = json::array();
  for (const json& gpu : Member(provenance, "gpus")) {
    names.push_back(Member(gpu, "name"));
  }
  return names;
}

}  // namespace

bool RecordedOneProcess(const ExperimentDetail& experiment) {
  return Member(Member(experiment.provenance, "slots"), "ranks").is_null();
}

std::optional<std::int64_t> RecordedThreads(
    const ExperimentDetail& experiment) {
  const json slots = Member(experiment.provenance, "slots");
  const json threads = Member(slots, "threads");
  if (!threads.is_number_integer() || Member(slots, "gpus") != 0) {
    return std::nullopt;
  }
  return threads.get<std::int64_t>();
}

void SayDifferences(const ExperimentDetail& experiment, const json& now,
                    const GlobalOptions& globals) {
  const json& before = experiment.provenance;
  SayDifference("the version of dtrain", Member(before, "version"),
                Member(now, "version"), globals);
  const json libraries = Member(now, "libraries");
  for (const auto& [name, version] : libraries.items()) {
    SayDifference("the version of " + name,
                  Member(Member(before, "libraries"), name), version, globals);
  }
  SayDifference("the CPU", Member(Member(before, "cpu"), "model"),
                Member(Member(now, "cpu"), "model"), globals);
  if (Member(Member(before, "slots"), "gpus") != 0) {
    SayDifference("the GPU", GpuNames(before), GpuNames(now), globals);
  }
  const auto threads = RecordedThreads(experiment);
  if (threads && *threads > UsableCpus()) {
    Say(globals, "warning: the trial had " + std::to_string(*threads) +
                     " threads, and this machine has " +
                     std::to_string(UsableCpus()) +
                     " CPUs; it will take longer");
  }
}

}  // namespace dtrain
