#pragma once

#include <string>

namespace dtrain {

/// A version of NCCL as major.minor.patch; `code` is an NCCL_VERSION_CODE.
inline std::string NcclVersionText(int code) {
  return std::to_string(code / 10'000) + "." +
         std::to_string(code / 100 % 100) + "." + std::to_string(code % 100);
}

/// Returns why this process must not use NCCL, or an empty string. `header` is
/// the NCCL_VERSION_CODE that dtrain was compiled with, `torch` the one that
/// LibTorch was compiled with, `library` the one of the NCCL that was loaded.
///
/// LibTorch's options of a group contain NCCL's configuration by value. Its
/// size depends on the minor version, so a header of another one than
/// LibTorch's shifts the fields after it. A library accepts the configurations
/// of older versions, but not of later ones.
inline std::string NcclMismatch(int header, int torch, int library) {
  if (header / 100 != torch / 100) {
    return "dtrain was built with nccl.h " + NcclVersionText(header) +
           ", but LibTorch needs that of NCCL " + NcclVersionText(torch) +
           "; install that version and build dtrain again";
  }
  if (library / 100 < torch / 100 || library / 10'000 != torch / 10'000) {
    return "this process has loaded NCCL " + NcclVersionText(library) +
           ", but LibTorch needs " + NcclVersionText(torch) +
           "; remove other copies of libnccl.so.2 from LD_LIBRARY_PATH";
  }
  return "";
}

}  // namespace dtrain
