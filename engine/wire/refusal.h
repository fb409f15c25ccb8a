#pragma once

#include <string_view>

namespace dtrain {

/// Begin of the message of EndReason::kRefused, and so of the trial's reason,
/// if its configuration is the cause.
inline constexpr std::string_view kConfigurationReason = "configuration: ";

}  // namespace dtrain
