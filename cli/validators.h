#pragma once

#include <cstdint>

#include <CLI/CLI.hpp>

namespace dtrain {

/// An option whose value is a whole number of at least `least`.
CLI::Validator WholeNumber(std::int64_t least);

}  // namespace dtrain
