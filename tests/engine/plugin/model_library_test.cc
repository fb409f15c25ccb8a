// CompileModel with shell scripts in place of the compiler and the trial host.
#include "engine/plugin/model_library.h"

#include <csignal>
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
using testing::IsEmpty;
using testing::StartsWith;

// Copies its last argument to the file after -o, counts its calls, and obeys
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

TEST_F(ModelLibraryTest, CompilesAgainForOtherContentsFlagsOrHeaders) {
  const fs::path first = Compile().file;
  WriteModel("other");
  EXPECT_NE(Compile().file, first);
  WriteModel("code");
  tools_.build.flags = {"-g"};
  EXPECT_NE(Compile().file, first);
  tools_.build.flags = {};
  tools_.build.abi = "new";
  EXPECT_NE(Compile().file, first);
  tools_.build.abi = "abi";
  tools_.build.link_flags = {"-lother"};
  EXPECT_NE(Compile().file, first);
  EXPECT_EQ(Calls(), 10u);
}

TEST_F(ModelLibraryTest, CompilesAllSourcesBesideIt) {
  Write("model/net.cc", "net\n");
  (void)Compile();
  EXPECT_EQ(Calls(), 3u);
}

TEST_F(ModelLibraryTest, PassesOnCompilerOutput) {
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

TEST_F(ModelLibraryTest, DoesNotCacheAFailure) {
  WriteModel("BAD");
  EXPECT_NE(Failure(), "");
  EXPECT_NE(Failure(), "");
  EXPECT_EQ(Calls(), 2u);
}

TEST_F(ModelLibraryTest, RefusesHeadersOutsideTheContext) {
  Write("outside.h", "");
  WriteModel("INCLUDE" + Path("outside.h").string());
  EXPECT_THAT(Failure(), HasSubstr("outside.h, which is not kept with the"));
  Write("model/inside.h", "");
  WriteModel("INCLUDE" + Path("model/inside.h").string());
  EXPECT_EQ(Failure(), "");
}

TEST_F(ModelLibraryTest, ReportsWhyTheLibraryCannotBeOpened) {
  Program("host", "#!/bin/sh\necho 'no symbol'\nexit 1\n");
  EXPECT_THAT(Failure(), HasSubstr("model_def.cpp: no symbol"));
  Program("host", "#!/bin/sh\n");
  EXPECT_THAT(Failure(), HasSubstr("cannot be opened"));
}

TEST_F(ModelLibraryTest, ConcurrentCallersCompileOnce) {
  WriteModel("SLOW");
  tools_.say_progress = [](const std::string&) {};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] { (void)Compile(); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Calls(), 2u);
}

TEST_F(ModelLibraryTest, RemovesLeftoversOfAKilledCompilation) {
  const fs::path made = Compile().file.parent_path();
  fs::rename(made, made.string() + ".partial");
  Write("cache/" + made.filename().string() + ".partial/5.o", "LINKFAIL");

  EXPECT_EQ(Compile().file.parent_path(), made);
  EXPECT_FALSE(fs::exists(made.string() + ".partial"));
}

TEST_F(ModelLibraryTest, MakesAPrivateCache) {
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

TEST_F(ModelLibraryTest, CompilesAgainIfTheLibraryWasModified) {
  const fs::path file = Compile().file;
  std::ofstream(file, std::ios::trunc) << "theirs";
  EXPECT_EQ(Compile().file, file);
  EXPECT_EQ(Calls(), 4u);
  fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
  (void)Compile();
  EXPECT_EQ(Calls(), 6u);
  // The form of earlier versions.
  std::ofstream(file.parent_path() / "trials.json", std::ios::trunc)
      << "[\"MyTrial\"]";
  (void)Compile();
  EXPECT_EQ(Calls(), 8u);
}

TEST_F(ModelLibraryTest, RefusesACacheThatOthersCanWrite) {
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
  EXPECT_THAT(Failure(), HasSubstr("other users can replace its contents"));
  fs::permissions(Path("home"), fs::perms::all | fs::perms::sticky_bit);
  EXPECT_EQ(Failure(), "");
}

TEST_F(ModelLibraryTest, ReportsAnUnwritableCache) {
  Write("cache", "a file");
  EXPECT_THAT(Failure(), HasSubstr("cannot write"));
  tools_.build.compiler = "/nowhere";
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/nowhere", 1);
  EXPECT_THAT(Failure(), StartsWith("no C++ compiler found"));
  ::setenv("PATH", path.c_str(), 1);
}

class ModelBuildTest : public testing::Test {
 protected:
  void Write(const std::string& file, const std::string& text) {
    const fs::path path = prefix_.path() / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void WriteBuild() {
    Write("lib/dtrain/model_build.json",
          R"({"compiler": "/usr/bin/true", "flags": ["-O2"],
              "include": ["include", "/torch/include"],
              "precompiled": "pch.h", "link_flags": ["-Wl,--as-needed"],
              "libraries": ["lib/libdtrain_trial.so", "/torch/lib/c10.so"]})");
    Write("include/dtrain/abi.h", "abi");
  }
  std::string Failure() {
    try {
      (void)ReadModelBuild(prefix_.path());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  TemporaryDirectory prefix_;
};

TEST_F(ModelBuildTest, IsFoundAfterAMove) {
  WriteBuild();
  const ModelBuild build = ReadModelBuild(prefix_.path());

  const std::string prefix = prefix_.path().string();
  EXPECT_THAT(build.flags, ElementsAre("-O2", "-isystem", prefix + "/include",
                                       "-isystem", "/torch/include"));
  EXPECT_THAT(build.link_flags,
              ElementsAre("-Wl,--as-needed", prefix + "/lib/libdtrain_trial.so",
                          "/torch/lib/c10.so"));
  EXPECT_EQ(build.abi, "abi");
  EXPECT_EQ(build.precompiled, "");
}

TEST_F(ModelBuildTest, FindsThePathsOfAPackagesLibTorch) {
  Write("lib/dtrain/model_build.json",
        R"({"compiler": "/usr/bin/true", "flags": [],
            "include": ["/usr/include", "{torch}/include"],
            "precompiled": "",
            "link_flags": [], "libraries": ["{torch}/lib/libc10.so"]})");
  Write("lib/dtrain/libtorch", "lib/none\nlib/site/torch\n");
  EXPECT_THAT(Failure(), HasSubstr("LibTorch is not installed"));

  Write("lib/site/torch/lib/libtorch_cpu.so", "");
  const ModelBuild build = ReadModelBuild(prefix_.path());
  const std::string torch = prefix_.path().string() + "/lib/site/torch";
  EXPECT_THAT(build.flags, ElementsAre("-isystem", torch + "/include"));
  EXPECT_THAT(build.link_flags, ElementsAre(torch + "/lib/libc10.so"));
}

TEST_F(ModelBuildTest, UsesAPrecompiledHeaderIfPresent) {
  WriteBuild();
  Write("pch.h.gch", "");
  EXPECT_EQ(ReadModelBuild(prefix_.path()).precompiled,
            prefix_.path() / "pch.h");
}

TEST_F(ModelBuildTest, ReportsMissingOrDamagedFiles) {
  EXPECT_THAT(Failure(), HasSubstr("lib/dtrain/model_build.json: the settings "
                                   "for compiling models are missing; build or "
                                   "install"));
  Write("lib/dtrain/model_build.json", "{");
  EXPECT_THAT(Failure(), HasSubstr("is damaged"));
  Write("lib/dtrain/model_build.json", R"({"compiler": 5})");
  EXPECT_THAT(Failure(), HasSubstr("is damaged"));
}

TEST(FindCompilerTest, PrefersTheRecordedOneToPath) {
  const TemporaryDirectory directory;
  const fs::path other = directory.path() / "c++";
  std::ofstream(other) << "#!/bin/sh\n";
  EXPECT_EQ(FindCompiler({.compiler = "/bin/sh"}), "/bin/sh");

  const std::string path = std::getenv("PATH");
  ::setenv("PATH", directory.path().c_str(), 1);
  EXPECT_THROW((void)FindCompiler({.compiler = "/nowhere"}), Error);
  fs::permissions(other, fs::perms::owner_all);
  EXPECT_EQ(FindCompiler({.compiler = "/nowhere"}), other);
  ::setenv("PATH", path.c_str(), 1);
}

TEST(ParseDependenciesTest, ReadsOutputOfGcc) {
  EXPECT_THAT(ParseDependencies("x.o: a.cpp b/c.h \\\n d.h\n"),
              ElementsAre("a.cpp", "b/c.h", "d.h"));
  EXPECT_THAT(ParseDependencies("/a b/x.o: my\\ dir/a.cpp co$$t.h ha\\#h.h\n"),
              ElementsAre("my dir/a.cpp", "co$t.h", "ha#h.h"));
  EXPECT_THAT(ParseDependencies("no rule"), IsEmpty());
  EXPECT_THAT(ParseDependencies(""), IsEmpty());
}

TEST(FirstOutsideTest, FindsAPathOutside) {
  const TemporaryDirectory directory;
  const fs::path rule = directory.path() / "rule";
  const fs::path inside = directory.path() / "a.h";
  std::ofstream(inside) << "";
  const auto find = [&](const std::string& files) {
    std::ofstream(rule, std::ios::trunc) << "x.o: " + files + "\n";
    return FirstOutside(rule, {fs::canonical(inside)}, "/pch.h");
  };

  EXPECT_EQ(find(inside.string()), "");
  EXPECT_EQ(find((directory.path() / "b/../a.h").string()), "");
  EXPECT_EQ(find("/pch.h " + inside.string()), "");
  EXPECT_EQ(find(inside.string() + " /other/net.h"), "/other/net.h");
}

class RunProgramsTest : public testing::Test {
 protected:
  ProgramRun Shell(const std::string& script) {
    return {.argv = {"sh", "-c", script},
            .output = directory_.path() / std::to_string(count_++)};
  }

  TemporaryDirectory directory_;
  int count_ = 0;
};

TEST_F(RunProgramsTest, ReturnsResultsInOrder) {
  const auto ends = RunPrograms({Shell("sleep 0.2; echo out; echo err >&2"),
                                 Shell("exit 3"), Shell("kill -9 $$")},
                                /*at_once=*/2);

  ASSERT_EQ(ends.size(), 3u);
  EXPECT_EQ(ends[0].output, "out\nerr\n");
  EXPECT_TRUE(ends[0].success());
  EXPECT_EQ(ends[1].exit_code, 3);
  EXPECT_FALSE(ends[1].success());
  EXPECT_EQ(ends[2].signal, SIGKILL);
  EXPECT_FALSE(ends[2].success());
}

TEST_F(RunProgramsTest, ReportsWhyAProgramCannotBeStarted) {
  const auto ends = RunPrograms(
      {{.argv = {"/nowhere/compiler"}, .output = directory_.path() / "x"}}, 1);

  EXPECT_EQ(ends[0].not_started, "No such file or directory");
  EXPECT_FALSE(ends[0].success());
}

TEST_F(RunProgramsTest, TruncatesLongOutput) {
  const auto ends =
      RunPrograms({Shell("head -c 3000000 /dev/zero | tr '\\0' x")}, 1);

  EXPECT_EQ(ends[0].output.size(), std::size_t{1} << 20);
}

TEST_F(RunProgramsTest, ProvidesNoInput) {
  const auto ends = RunPrograms({Shell("cat; echo end")}, 1);

  EXPECT_EQ(ends[0].output, "end\n");
}

}  // namespace
}  // namespace dtrain
