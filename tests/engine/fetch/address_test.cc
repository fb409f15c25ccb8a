#include "engine/fetch/address.h"

#include <fstream>

#include "engine/base/error.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

TEST(SourceAddressTest, RefusesAMissingPath) {
  EXPECT_THAT([] { SourceAddress("/no/such/directory"); },
              ThrowsMessage<Error>(HasSubstr("--from: '/no/such/directory' "
                                             "does not exist")));
}

TEST(SourceAddressTest, RefusesOtherSchemes) {
  for (const char* from :
       {"ftp://host/x", "sftp://host/x", "gopher://host/x"}) {
    EXPECT_THAT([&] { SourceAddress(from); },
                ThrowsMessage<Error>(HasSubstr("give http, https or file")));
  }
}

TEST(SourceAddressTest, RefusesInvalidAddresses) {
  for (const char* from : {"http://", "http://a b/", "https://host:port/"}) {
    EXPECT_THAT([&] { SourceAddress(from); },
                ThrowsMessage<Error>(HasSubstr("is not a valid address")))
        << from;
  }
  EXPECT_THAT([] { SourceAddress("https://host/x?sig=1"); },
              ThrowsMessage<Error>(HasSubstr("names no directory")));
}

TEST(SourceAddressTest, ShowsNoPassword) {
  EXPECT_EQ(ShownAddress("https://me:secret@host/x/"), "https://host/x/");
  EXPECT_EQ(ShownAddress("https://me:secret@ho st/x"), "...@ho st/x");
  EXPECT_THAT([] { SourceAddress("ftp://me:secret@host/x"); },
              ThrowsMessage<Error>(Not(HasSubstr("secret"))));
}

TEST(SourceAddressTest, TakesAddressesWithoutTheLastSlash) {
  EXPECT_EQ(SourceAddress("https://host/mirror//"), "https://host/mirror");
}

TEST(SourceAddressTest, MakesAnAddressOfADirectory) {
  const TemporaryDirectory directory;
  const auto place = directory.path() / "two words%";
  std::filesystem::create_directory(place);
  EXPECT_EQ(SourceAddress(place.string()),
            "file://" + directory.path().string() + "/two%20words%25");
}

TEST(SourceAddressTest, ExpandsTheHomeDirectory) {
  const TemporaryDirectory home;
  std::filesystem::create_directory(home.path() / "mirror");
  const auto variable = [&](const char* name) -> std::optional<std::string> {
    if (std::string_view(name) == "HOME") return home.path().string();
    return std::nullopt;
  };
  EXPECT_EQ(SourceAddress("~/mirror", variable),
            "file://" + home.path().string() + "/mirror");
}

}  // namespace

}  // namespace dtrain
