// The generated parts of docs/cli.md and docs/cli/*.md, which
// `dtrain __reference` writes.

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ReferenceTest : public testing::Test {
 protected:
  ReferenceTest() {
    fs::copy(kDocs / "cli.md", Docs() / "cli.md");
    fs::copy(kDocs / "cli", Docs() / "cli");
  }

  fs::path Docs() const { return dtrain_.directory(); }
  CliResult WriteReference() const {
    return dtrain_.Run({"__reference", Docs()});
  }
  static std::string ToText(const fs::path& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }
  // Cuts the page of a copy from `begin` to `end`, and keeps `end`.
  void Cut(const std::string& page, const std::string& begin,
           const std::string& end) const {
    std::string text = ToText(Docs() / page);
    const std::size_t at = text.find(begin);
    ASSERT_NE(at, text.npos);
    text.erase(at, text.find(end, at) - at);
    dtrain_.Write(page, text);
  }

  const fs::path kDocs = fs::path(DTRAIN_SOURCE_DIR) / "docs";
  const CliRunner dtrain_;
};

TEST_F(ReferenceTest, GeneratedFilesAreCurrent) {
  const CliResult result = WriteReference();
  ASSERT_EQ(result.code, 0) << result.err;
  for (const auto& entry : fs::recursive_directory_iterator(kDocs / "cli")) {
    const std::string page = "cli" / entry.path().filename();
    EXPECT_EQ(ToText(entry.path()), ToText(Docs() / page))
        << "docs/" << page << " is not current; write it by\n  "
        << DTRAIN_BINARY << " __reference docs";
  }
  EXPECT_EQ(ToText(kDocs / "cli.md"), ToText(Docs() / "cli.md"))
      << "docs/cli.md is not current; write it by\n  " << DTRAIN_BINARY
      << " __reference docs";
}

TEST_F(ReferenceTest, AddsASectionForACommandThatHasNone) {
  Cut("cli/maintain.md", "## doctor", "## completion");
  ASSERT_EQ(WriteReference().code, 0);
  EXPECT_THAT(ToText(Docs() / "cli/maintain.md"),
              HasSubstr("\n## doctor\n\nCheck the store and the machine for "
                        "problems.\n"));
}

TEST_F(ReferenceTest, RefusesAnUnknownCommandAndAPartWithoutAnEnd) {
  dtrain_.Write("cli/create.md", "<!-- generated: burn -->\n<!-- end -->\n");
  EXPECT_THAT(WriteReference().err, HasSubstr("no command 'burn'"));
  dtrain_.Write("cli/create.md", "<!-- generated: create -->\nUsage\n");
  EXPECT_THAT(WriteReference().err,
              HasSubstr("no line '<!-- end -->' below 'create'"));
  dtrain_.Write("cli/create.md",
                "<!-- generated: create -->\n<!-- generated: run -->\n"
                "<!-- end -->\n");
  EXPECT_THAT(WriteReference().err,
              HasSubstr("no line '<!-- end -->' below 'create'"));
}

}  // namespace
}  // namespace dtrain
