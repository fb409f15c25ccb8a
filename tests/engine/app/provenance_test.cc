#include "engine/app/provenance.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

using testing::StartsWith;

void Write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

TEST(ProvenanceTest, HasTheCommandLineAndTheVersionsOfLibraries) {
  const TemporaryDirectory directory;
  const nlohmann::json record =
      Provenance({"dtrain", "create", "x.yaml"}, directory.path(), {});
  EXPECT_EQ(record.at("argv"), nlohmann::json({"dtrain", "create", "x.yaml"}));
  EXPECT_FALSE(record.at("host").get<std::string>().empty());
  ASSERT_FALSE(LibraryVersions().empty());
  EXPECT_EQ(LibraryVersions().front().first, "dtrain");
  EXPECT_THAT(BuildVersion(), StartsWith(LibraryVersions().front().second));
}

// The commit is read from the files of the repository: git may execute programs
// that its configuration names.
TEST(ProvenanceTest, CommitIsThatOfTheHead) {
  const std::string commit(40, 'a');
  struct Row {
    const char* name;
    std::string head;
    std::string file;  // beside it
    std::string text;
    nlohmann::json commit;
  };
  for (const Row& row :
       {Row{"detached", commit + "\n", "x", "", commit},
        Row{"branch", "ref: refs/heads/main\n", "refs/heads/main",
            commit + "\n", commit},
        Row{"packed", "ref: refs/heads/main\n", "packed-refs",
            "# pack-refs\n" + commit + " refs/heads/main\n", commit},
        Row{"empty", "ref: refs/heads/main\n", "x", "", nullptr},
        Row{"outside", "ref: refs/../x\n", "x", commit + "\n", nullptr},
        Row{"text", "not a commit\n", "x", "", nullptr}}) {
    const TemporaryDirectory directory;
    const fs::path git = directory.path() / ".git";
    Write(git / "HEAD", row.head);
    Write(git / row.file, row.text);
    fs::create_directory(directory.path() / "below");
    const nlohmann::json record =
        Provenance({}, directory.path() / "below", {});
    const nlohmann::json& repository = record.at("git");
    EXPECT_EQ(repository.is_null() ? repository : repository.at("commit"),
              row.commit)
        << row.name;
  }
}

}  // namespace
}  // namespace dtrain
