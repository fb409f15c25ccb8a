// CompileModel with a compiler and a trial host that are shell scripts: what is
// kept, what is said, who compiles.
#include "engine/plugin/model_library.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// Copies its last argument to what follows -o, counts its calls, and obeys
// words in the source.
constexpr const char* kCompiler = R"sh(#!/bin/sh
echo "$*" >>"$(dirname "$0")/calls"
for word; do
  case $previous in
    -o) out=$word ;;
    -MF) rule=$word ;;
  esac
  previous=$word
done
if [ "$1" = -shared ]; then
  grep -q LINKFAIL "$(dirname "$out")"/*.o && { echo 'undefined: f'; exit 1; }
  echo library >"$out"; exit 0
fi
grep -q WARN "$previous" && echo "$previous:1:1: warning: W"
grep -q BAD "$previous" && { echo "$previous:3:5: error: E"; exit 1; }
grep -q DIE "$previous" && kill -9 $$
grep -q SLOW "$previous" && sleep 0.3
echo "x.o: $previous$(sed -n 's/^INCLUDE/ /p' "$previous")" >"$rule"
cp "$previous" "$out"
)sh";

class ModelLibraryTest : public testing::Test {
 protected:
  ModelLibraryTest() {
    Program("compiler", kCompiler);
    Program("host", "#!/bin/sh\necho '[\"MyTrial\"]'\n");
    WriteModel("code");
    tools_ = {
        .build = {.compiler = Path("compiler"), .abi = "abi"},
        .trial_host = Path("host"),
        .cache = Path("cache"),
        .jobs = 2,
        .say_progress =
            [this](const std::string& text) { progress_ += text + '\n'; },
        .say_output = [this](const std::string& text) { output_ += text; }};
  }

  fs::path Path(const std::string& name) { return directory_.path() / name; }
  void Write(const std::string& name, const std::string& text) {
    fs::create_directories(Path(name).parent_path());
    std::ofstream(Path(name), std::ios::trunc) << text;
  }
  void Program(const std::string& name, const std::string& text) {
    Write(name, text);
    fs::permissions(Path(name), fs::perms::owner_all);
  }
  void WriteModel(const std::string& text) {
    Write("model/model_def.cpp", text + '\n');
  }
  ModelLibrary Compile() { return CompileModel(Path("model"), tools_); }
  std::string Failure() {
    try {
      (void)Compile();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return error.what();
    }
    return "";
  }
  std::size_t Calls() {
    std::ifstream in(Path("calls"));
    return std::count(std::istreambuf_iterator<char>(in), {}, '\n');
  }

  TemporaryDirectory directory_;
  ModelTools tools_;
  std::string progress_;
  std::string output_;
};

TEST_F(ModelLibraryTest, CompilesOnceForTheSameContents) {
  const ModelLibrary library = Compile();
  EXPECT_THAT(library.trials, ElementsAre("MyTrial"));
  EXPECT_TRUE(fs::exists(library.file));
  EXPECT_EQ(Calls(), 2u);
  EXPECT_THAT(progress_, HasSubstr("compiling "));

  progress_.clear();
  EXPECT_EQ(Compile().file, library.file);
  fs::rename(Path("model"), Path("moved"));
  EXPECT_EQ(CompileModel(Path("moved"), tools_).file, library.file);
  EXPECT_EQ(Calls(), 2u);
  EXPECT_EQ(progress_, "");
}

TEST_F(ModelLibraryTest, CompilesAnewForOtherContentsFlagsOrHeaders) {
  const fs::path first = Compile().file;
  WriteModel("other");
  EXPECT_NE(Compile().file, first);
  WriteModel("code");
  tools_.build.flags = {"-g"};
  EXPECT_NE(Compile().file, first);
  tools_.build.flags = {};
  tools_.build.abi = "new";
  EXPECT_NE(Compile().file, first);
  EXPECT_EQ(Calls(), 8u);
}

TEST_F(ModelLibraryTest, CompilesAllSourcesBesideIt) {
  Write("model/net.cc", "net\n");
  (void)Compile();
  EXPECT_EQ(Calls(), 3u);
}

TEST_F(ModelLibraryTest, PassesOnWhatTheCompilerSays) {
  WriteModel("WARN");
  (void)Compile();
  EXPECT_THAT(output_, HasSubstr("model_def.cpp:1:1: warning: W"));

  WriteModel("BAD");
  EXPECT_THAT(Failure(), HasSubstr("model_def.cpp: does not compile"));
  EXPECT_THAT(output_, HasSubstr("model_def.cpp:3:5: error: E"));
  WriteModel("LINKFAIL");
  EXPECT_THAT(Failure(), HasSubstr("model_def.cpp: does not link"));
  EXPECT_THAT(output_, HasSubstr("undefined: f"));
  WriteModel("DIE");
  EXPECT_THAT(Failure(), HasSubstr("the compiler was killed by signal 9"));
}

TEST_F(ModelLibraryTest, AFailureIsNotKept) {
  WriteModel("BAD");
  EXPECT_NE(Failure(), "");
  EXPECT_NE(Failure(), "");
  EXPECT_EQ(Calls(), 2u);
}

TEST_F(ModelLibraryTest, RefusesWhatWouldNotBeKept) {
  Write("outside.h", "");
  WriteModel("INCLUDE" + Path("outside.h").string());
  EXPECT_THAT(Failure(), HasSubstr("outside.h, which is not among the files"));
  Write("model/inside.h", "");
  WriteModel("INCLUDE" + Path("model/inside.h").string());
  EXPECT_EQ(Failure(), "");
}

TEST_F(ModelLibraryTest, SaysWhyTheLibraryCannotBeOpened) {
  Program("host", "#!/bin/sh\necho 'no symbol'\nexit 1\n");
  EXPECT_THAT(Failure(), HasSubstr("model_def.cpp: no symbol"));
  Program("host", "#!/bin/sh\n");
  EXPECT_THAT(Failure(), HasSubstr("cannot be opened"));
}

TEST_F(ModelLibraryTest, OneOfManyCompiles) {
  WriteModel("SLOW");
  tools_.say_progress = [](const std::string&) {};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] { (void)Compile(); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Calls(), 2u);
}

TEST_F(ModelLibraryTest, ClearsAwayWhatAKilledOneLeft) {
  const fs::path made = Compile().file.parent_path();
  fs::rename(made, made.string() + ".partial");
  Write("cache/" + made.filename().string() + ".partial/5.o", "LINKFAIL");

  EXPECT_EQ(Compile().file.parent_path(), made);
  EXPECT_FALSE(fs::exists(made.string() + ".partial"));
}

TEST_F(ModelLibraryTest, KeepsTheCacheToItsUser) {
  tools_.cache = Path("home/dtrain/cache");
  const mode_t mask = ::umask(0);
  const ModelLibrary library = Compile();
  ::umask(mask);
  const auto mode = [](const fs::path& path) {
    return static_cast<unsigned>(fs::status(path).permissions());
  };
  for (const char* made : {"home", "home/dtrain", "home/dtrain/cache"}) {
    EXPECT_EQ(mode(Path(made)), 0700u) << made;
  }
  EXPECT_EQ(mode(library.file.parent_path()), 0700u);
  EXPECT_EQ(mode(library.file), 0600u);
}

TEST_F(ModelLibraryTest, CompilesAnewWhatIsNotAsItWasMade) {
  const fs::path file = Compile().file;
  std::ofstream(file, std::ios::trunc) << "theirs";
  EXPECT_EQ(Compile().file, file);
  EXPECT_EQ(Calls(), 4u);
  fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
  (void)Compile();
  EXPECT_EQ(Calls(), 6u);
  // As earlier versions wrote it.
  std::ofstream(file.parent_path() / "trials.json", std::ios::trunc)
      << "[\"MyTrial\"]";
  (void)Compile();
  EXPECT_EQ(Calls(), 8u);
}

TEST_F(ModelLibraryTest, RefusesACacheThatOthersMayWriteTo) {
  (void)Compile();
  fs::permissions(Path("cache"), fs::perms::others_write,
                  fs::perm_options::add);
  EXPECT_THAT(Failure(), HasSubstr("may be written by others"));
  if (::geteuid() != 0) return;  // only root makes what is of another user
  fs::permissions(Path("cache"), fs::perms::owner_all);
  ASSERT_EQ(::chown(Path("cache").c_str(), 65534, 65534), 0);
  EXPECT_THAT(Failure(), HasSubstr("belongs to another user"));
}

TEST_F(ModelLibraryTest, RefusesADirectoryThatOthersCanReplaceTheCacheIn) {
  tools_.cache = Path("home/cache");
  (void)Compile();
  fs::permissions(Path("home"), fs::perms::all);
  EXPECT_THAT(Failure(), HasSubstr("others can replace what is in it"));
  fs::permissions(Path("home"), fs::perms::all | fs::perms::sticky_bit);
  EXPECT_EQ(Failure(), "");
}

TEST_F(ModelLibraryTest, SaysThatTheCacheCannotBeWritten) {
  Write("cache", "a file");
  EXPECT_THAT(Failure(), HasSubstr("cannot write"));
  tools_.build.compiler = "/nowhere";
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/nowhere", 1);
  EXPECT_THAT(Failure(), StartsWith("there is no C++ compiler"));
  ::setenv("PATH", path.c_str(), 1);
}

}  // namespace
}  // namespace dtrain
