#pragma once

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "engine/fetch/data_sets.h"
#include "engine/fetch/download.h"
#include "engine/os/sha256.h"

namespace dtrain {

/// For servers on this machine.
inline constexpr Patience kShortPatience = {
    .connect = std::chrono::seconds(10),
    .stall = std::chrono::seconds(30),
    .attempts = 3,
    .pause = std::chrono::milliseconds(1)};

/// `size` bytes without a pattern that a shift would hide.
inline std::string SomeText(std::size_t size) {
  std::string text;
  std::uint32_t state = 1;
  while (text.size() < size) {
    state = state * 1664525U + 1013904223U;
    text += static_cast<char>(state >> 24);
  }
  return text;
}

inline std::string Sha256OfText(const std::string& text) {
  return ComputeSha256(std::as_bytes(std::span(text)));
}

inline void WriteText(const std::filesystem::path& path,
                      const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string ReadText(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A set of two small files, as MNIST is one of four.
struct MadeUpSet {
  const std::string images = SomeText(150'000);
  const std::string labels = "0123456789";
  const std::string images_sha256 = Sha256OfText(images);
  const std::string labels_sha256 = Sha256OfText(labels);
  const std::array<KnownFile, 2> files = {
      {{"images.gz", 150'000, images_sha256},
       {"labels.gz", 10, labels_sha256}}};
  const std::array<std::string_view, 1> addresses = {"http://127.0.0.1:1/"};
  const DataSet set = {.name = "made-up",
                       .summary = "for tests",
                       .addresses = addresses,
                       .files = files,
                       .directory = "made"};
};

}  // namespace dtrain
