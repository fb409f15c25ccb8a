#pragma once

#include <string>
#include <vector>

namespace dtrain {

class Store;
class StoreLayout;
struct ExperimentRow;
struct GlobalOptions;

/// Finding of a check of `dtrain doctor`.
struct Finding {
  enum class Kind {
    kWell,
    kRemark,  // to be looked after; nothing is lost
    kDamage,  // the database itself
  };
  std::string check;  // "database", "disk", …
  Kind kind = Kind::kWell;
  std::string text;  // one line: where, what, what to do
};

using DoctorFindings = std::vector<Finding>;

inline Finding Remark(const std::string& check, const std::string& text) {
  return {check, Finding::Kind::kRemark, text};
}

/// Checks the database itself. The other checks of a store rely on it.
DoctorFindings CheckDatabase(const Store& store);
/// Compares checkpoints, directories and runners with the database.
DoctorFindings CheckExperiments(const Store& store,
                                const GlobalOptions& globals);
/// Replays the recorded events of each search with a new searcher, and compares
/// operations and snapshots with the recorded ones.
DoctorFindings CheckSearches(const Store& store,
                             const std::vector<ExperimentRow>& rows);
/// Checks the SQLite library, the disk, file modes, the write lock and the
/// write-ahead log.
DoctorFindings CheckSurroundings(const StoreLayout& layout);
/// Checks the GPUs and slots of this machine.
DoctorFindings CheckMachine();

}  // namespace dtrain
