#pragma once

#include <array>
#include <string>

#include "engine/fetch/data_sets.h"
#include "tests/engine/fetch/fetch_support.h"

namespace dtrain {

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
