#pragma once

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/fetch/download.h"
#include "tests/engine/fetch/fetch_support.h"
#include "tests/support/http_server.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {

/// Downloads one file, `body_`, into `part_`.
class DownloadTest : public testing::Test {
 protected:
  DownloadRequest Request(const std::string& address) const {
    return {.addresses = {address},
            .part = part_,
            .bytes = static_cast<std::int64_t>(body_.size()),
            .sha256 = Sha256OfText(body_),
            .patience = kShortPatience};
  }
  std::string Get(const DownloadRequest& request) {
    return Download(request, {.say = [this](const std::string& text) {
                      said_ += text + "\n";
                    }});
  }
  std::string Get(const HttpServer& server) {
    return Get(Request(server.address() + "/file"));
  }
  void ExpectWhole(const std::string& sha256) {
    EXPECT_EQ(sha256, Sha256OfText(body_));
    EXPECT_EQ(ReadText(part_), body_);
  }

  const TemporaryDirectory directory_;
  const std::filesystem::path part_ = directory_.path() / "file.part";
  const std::string body_ = SomeText(200'000);
  std::string said_;
};

}  // namespace dtrain
