#include "engine/checkpoint/pickle_globals.h"

#include <algorithm>
#include <array>
#include <utility>

namespace dtrain {

namespace {

using Name = std::pair<std::string_view, std::string_view>;

constexpr auto kGlobals = std::to_array<Name>({
    {"__builtin__", "set"},
    {"_codecs", "encode"},  // bytes, in protocol 2
    {"builtins", "set"},
    {"collections", "Counter"},  // the milestones of a scheduler
    {"collections", "OrderedDict"},
    {"torch", "Size"},
    {"torch", "device"},
    {"torch._utils", "_rebuild_parameter"},
    {"torch._utils", "_rebuild_parameter_with_state"},
    {"torch._utils", "_rebuild_tensor"},
    {"torch._utils", "_rebuild_tensor_v2"},
});

constexpr auto kDtypes = std::to_array<std::string_view>(
    {"bfloat16", "bool", "complex128", "complex64", "float16", "float32",
     "float64", "int16", "int32", "int64", "int8", "uint8"});

}  // namespace

bool IsKnownGlobal(std::string_view module, std::string_view name) {
  if (std::ranges::find(kGlobals, Name(module, name)) != kGlobals.end()) {
    return true;
  }
  if (module == "torch" || module == "torch.cuda") {
    return name.ends_with("Storage") ||
           std::ranges::find(kDtypes, name) != kDtypes.end();
  }
  return false;
}

}  // namespace dtrain
