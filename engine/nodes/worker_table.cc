#include "engine/nodes/worker_table.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <span>
#include <system_error>
#include <variant>

#include "engine/base/error.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/wire/json_codec.h"

namespace dtrain {
namespace {

// In the order of WorkerState.
constexpr std::array<std::string_view, 3> kWorkerStates = {"joining", "ready",
                                                           "draining"};

// A line of the file, after the first.
using WorkerLine = std::variant<WorkerRow, JobRow>;

constexpr Duration kPause = std::chrono::milliseconds(200);
constexpr Duration kSourcePeriod = std::chrono::seconds(1);

}  // namespace

// Found by the codec.
static std::span<const std::string_view> EnumNames(WorkerState) {
  return kWorkerStates;
}

std::string_view StateName(WorkerState state) {
  return kWorkerStates[static_cast<std::size_t>(state)];
}

std::string JobRow::StateText() const {
  if (served) return "without workers";
  if (!pending) return "starting";
  return reason.empty() ? "pending" : "pending (" + reason + ")";
}

bool WorkerTable::HasWorker(const JobRow& job) const {
  return std::ranges::find(workers, job.id, &WorkerRow::job) != workers.end();
}

std::vector<JobRow> WorkerTable::JobsWithoutWorkers() const {
  std::vector<JobRow> rows = jobs;
  std::erase_if(rows, [&](const JobRow& job) { return HasWorker(job); });
  return rows;
}

std::string WorkerTable::Summary() const {
  std::vector<std::string> parts;
  for (const auto state :
       {WorkerState::kReady, WorkerState::kJoining, WorkerState::kDraining}) {
    const auto count = std::ranges::count(workers, state, &WorkerRow::state);
    if (count > 0) {
      parts.push_back(std::to_string(count) + " " +
                      std::string(StateName(state)));
    }
  }
  std::map<std::string, std::int64_t> counts;
  for (const JobRow& job : JobsWithoutWorkers()) ++counts[job.StateText()];
  for (const auto& [state, count] : counts) {
    parts.push_back(CountText(count, "job") + " " + state);
  }
  return parts.empty() ? "none yet" : Join(parts, ", ");
}

bool WorkerUpdates::due() const {
  return clock_.monotonic() - applied_at_ >= kPause;
}

std::vector<int> WorkerUpdates::Apply(WorkerTable table) {
  const Duration now = clock_.monotonic();
  applied_at_ = now;
  for (WorkerRow& row : table.workers) {
    if (row.used > 0) {
      idle_since_.erase(row.id);
    } else {
      row.idle_since = idle_since_.emplace(row.id, clock_.now()).first->second;
    }
  }
  if (hooks_.source != nullptr) table.jobs = hooks_.source->Jobs();
  const bool changed = !(table == table_);
  table_ = std::move(table);
  if (changed && hooks_.changed) hooks_.changed(table_);
  if (hooks_.source == nullptr) return {};
  if (!changed && now - called_at_ < kSourcePeriod) return {};
  called_at_ = now;
  return hooks_.source->Update(table_);
}

std::optional<WorkersFailed> WorkerUpdates::Failure() const {
  std::string why = hooks_.source == nullptr ? "" : hooks_.source->Failure();
  if (why.empty()) return std::nullopt;
  return WorkersFailed{std::move(why)};
}

void WriteWorkers(const std::filesystem::path& path, const WorkerTable& table) {
  const std::filesystem::path temporary = path.string() + ".new";
  std::string text = EncodeLine(table);
  for (const WorkerRow& row : table.workers)
    text += EncodeLine(WorkerLine(row));
  for (const JobRow& row : table.jobs) text += EncodeLine(WorkerLine(row));
  if (!(std::ofstream(temporary) << text << std::flush)) return;
  std::error_code ignored;
  std::filesystem::rename(temporary, path, ignored);
}

std::optional<WorkerTable> ReadWorkers(const std::filesystem::path& path) try {
  constexpr char kWhat[] = "workers of an experiment";
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  auto table = DecodeLine<WorkerTable>(line, kWhat, /*strict=*/false);
  while (std::getline(file, line)) {
    auto row = DecodeLine<WorkerLine>(line, kWhat, /*strict=*/false);
    if (const auto* worker = std::get_if<WorkerRow>(&row)) {
      table.workers.push_back(*worker);
    } else {
      table.jobs.push_back(std::get<JobRow>(row));
    }
  }
  return table;
} catch (const Error&) {
  return std::nullopt;
}

}  // namespace dtrain
