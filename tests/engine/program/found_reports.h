#pragma once

#include <string>
#include <vector>

#include "engine/program/metric_steps.h"

namespace dtrain {

/// Takes the reports out of `findings`, as texts such as "3 acc=0.50
/// loss=1.00".
inline std::vector<std::string> DrainReports(MetricFindings& findings) {
  std::vector<std::string> found;
  for (const FoundReport& report : findings.reports) {
    std::string text = std::to_string(static_cast<int>(report.count));
    for (const auto& [name, value] : report.metrics) {
      text += " " + name + "=" + std::to_string(value).substr(0, 4);
    }
    found.push_back(text);
  }
  findings.reports.clear();
  return found;
}

}  // namespace dtrain
