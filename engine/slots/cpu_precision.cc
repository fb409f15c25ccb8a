#include <array>
#include <sstream>

#include "engine/base/error.h"
#include "engine/os/files.h"
#include "engine/slots/slots.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {
namespace {

// Flags of /proc/cpuinfo on x86-64 and on ARM.
constexpr std::array<std::string_view, 3> kForBf16 = {"avx512_bf16", "amx_bf16",
                                                      "bf16"};
constexpr std::array<std::string_view, 3> kForFp16 = {"avx512_fp16", "amx_fp16",
                                                      "asimdhp"};

}  // namespace

bool CpuComputesIn(const std::string& mixed_precision,
                   std::string_view cpuinfo) {
  if (mixed_precision != "bf16" && mixed_precision != "fp16") return false;
  const auto& flags = mixed_precision == "bf16" ? kForBf16 : kForFp16;
  std::istringstream words{std::string(cpuinfo)};
  for (std::string word; words >> word;) {
    for (const std::string_view flag : flags) {
      if (word == flag) return true;
    }
  }
  return false;
}

void RequireCpuPrecision(const TrainerSettings& settings) {
  const std::string& precision = settings.mixed_precision;
  if (precision == "none") return;
  if (precision == "tf32") {
    throw Error(ErrorKind::kResources,
                "optimizations.mixed_precision: only GPUs compute in tf32; set "
                "it to none or bf16, or train on a GPU");
  }
  const std::string text = ReadFile("/proc/cpuinfo").value_or("");
  if (CpuComputesIn(precision, text)) return;
  throw Error(ErrorKind::kResources,
              "optimizations.mixed_precision: this machine's CPU has no "
              "instructions for " +
                  precision +
                  ", and without them a step takes many times as long; set it "
                  "to none, or train on a GPU");
}

}  // namespace dtrain
