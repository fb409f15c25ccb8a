#pragma once

#include <string>
#include <vector>

#include "engine/store/store.h"

namespace dtrain {

struct GlobalOptions;

/// What one check of `dtrain doctor` found.
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

/// The checks of the database itself; what else is recorded is only to be
/// trusted where they find no damage.
DoctorFindings CheckDatabase(const Store& store);
/// Checkpoints, directories and runners against what is recorded of them.
DoctorFindings CheckExperiments(const Store& store,
                                const GlobalOptions& globals);
/// The recorded events of each search, fed to a fresh searcher, against the
/// operations and the snapshot that were recorded with them.
DoctorFindings CheckSearches(const Store& store,
                             const std::vector<ExperimentRow>& rows);
/// The library, the disk, file modes, the write lock, the write-ahead log.
DoctorFindings CheckSurroundings(const StoreLayout& layout);
/// GPUs and slots of this machine.
DoctorFindings CheckMachine();

}  // namespace dtrain
