#include "engine/page/redaction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using nlohmann::json;

json Redacted(json experiment) {
  Redact(experiment);
  return experiment;
}

json WithText(const std::string& text) {
  return Redacted({{"provenance", {{"host", "bigbox"}, {"user", "alice"}}},
                   {"note", text}})
      .at("note");
}

TEST(RedactTest, RemovesPathsFromAnyText) {
  EXPECT_EQ(WithText("see /home/x/data, then ~/y"),
            "see [removed], then [removed]");
  EXPECT_EQ(WithText("path: \"/srv/a b\""), "path: \"[removed] b\"");
  EXPECT_EQ(WithText("dir=/data/images"), "dir=[removed]");
  EXPECT_EQ(WithText("file:/data"), "file:[removed]");
}

TEST(RedactTest, KeepsWhatOnlyLooksLikeAPath) {
  EXPECT_EQ(WithText("300 images/s at 3 / 4"), "300 images/s at 3 / 4");
  EXPECT_EQ(WithText("https://example.com/a"), "https://example.com/a");
}

TEST(RedactTest, RemovesHostAndUserWhereverTheyStand) {
  EXPECT_EQ(WithText("alice@bigbox failed"), "[removed]@[removed] failed");
}

TEST(RedactTest, KeepsCommitAndVersionsOnly) {
  const json redacted = Redacted(
      {{"provenance",
        {{"host", "bigbox"},
         {"user", "alice"},
         {"argv", {"dtrain", "create"}},
         {"cwd", "/home/alice"},
         {"git", {{"commit", "abc"}}},
         {"libraries", {{"sqlite", "3.40"}}}}},
       {"logs", {{"3", "secret"}}},
       {"config", {{"environment", {{"TOKEN", "x"}}}, {"name", "n"}}}});
  EXPECT_EQ(redacted.at("provenance"),
            json({{"git", {{"commit", "abc"}}},
                  {"libraries", {{"sqlite", "3.40"}}}}));
  EXPECT_EQ(redacted.at("logs"), json::object());
  EXPECT_EQ(redacted.at("config"), json({{"name", "n"}}));
}

TEST(RedactTest, RemovesLinesOfLogsFromReasons) {
  const json redacted = Redacted(
      {{"provenance", nullptr},
       {"error", "3 of 3 trials failed before they reported: bad key s3cr3t"},
       {"reasons",
        {{"1",
          "exited with code 1: bad key s3cr3t (twice, before its first "
          "report)"},
         {"2", "killed by signal 11 (SIGSEGV): bad key"},
         {"3", "exited with code 3"},
         {"4", "out of memory: killed by the kernel"}}}});
  EXPECT_EQ(redacted.at("error"),
            "3 of 3 trials failed before they reported: [removed]");
  EXPECT_EQ(redacted.at("reasons"),
            json({{"1", "exited with code 1: [removed]"},
                  {"2", "killed by signal 11 (SIGSEGV): [removed]"},
                  {"3", "exited with code 3"},
                  {"4", "out of memory: killed by the kernel"}}));
}

TEST(RedactTest, TakesRecordsWithoutProvenance) {
  EXPECT_EQ(Redacted({{"provenance", nullptr}, {"note", "a"}}).at("note"), "a");
}

}  // namespace
}  // namespace dtrain
