#include "engine/fetch/shared_library.h"

#include "engine/base/error.h"

namespace dtrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(SharedLibraryTest, NamesThePackageOfOneThatIsNotThere) {
  EXPECT_THAT(
      [] { SharedLibrary("libnone.so.9", "libnone9"); },
      ThrowsMessage<Error>(AllOf(HasSubstr("libnone.so.9: cannot be opened: "),
                                 HasSubstr("install the package libnone9"))));
}

TEST(SharedLibraryTest, SaysWhatAnOldOneLacks) {
  const SharedLibrary library("libc.so.6", "libc6");
  int (*function)(int) = nullptr;
  EXPECT_THAT([&] { library.Find("no_such_function", function); },
              ThrowsMessage<Error>(HasSubstr("has no no_such_function")));
  library.Find("abs", function);
  EXPECT_EQ(function(-3), 3);
}

}  // namespace
}  // namespace dtrain
