#pragma once

#include <algorithm>
#include <string>

namespace dtrain {

/// Whether a file of this name is taken for an image: .jpg, .jpeg or .png, in
/// either case.
inline bool IsImageName(const std::string& name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower.ends_with(".jpg") || lower.ends_with(".jpeg") ||
         lower.ends_with(".png");
}

}  // namespace dtrain
