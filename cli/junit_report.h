#pragma once

#include <string>
#include <vector>

#include "engine/report/expression.h"
#include "engine/store/store.h"

namespace dtrain {

/// The experiment as a JUnit report: a test case a trial, one a requirement,
/// and one for the experiment itself where it failed without a failed trial.
std::string JunitReport(const Store& store, const ExperimentRow& experiment,
                        const std::vector<Check>& checks);

}  // namespace dtrain
