#include "cli/parse.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <new>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera::cli {
namespace {

struct Parsed {
  std::optional<int> code;
  std::optional<int64_t> world;
  std::string messages;
};

Parsed parse_words(std::vector<std::string> words) {
  Parsed parsed;
  CLI::App app("", "sample");
  bool json = false;
  std::string color;
  add_integer(app, "--world", parsed.world, "ranks");
  app.add_flag("--json", json);
  add_color(app, color);
  app.get_option("--color")->group("");  // Hidden from the help.
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  parsed.code = parse(app, std::move(words));
  parsed.messages = testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();
  return parsed;
}

TEST(Parse, ReadsFlagsInOrder) {
  const Parsed parsed = parse_words({"--world", "8"});
  EXPECT_EQ(parsed.code, std::nullopt);
  EXPECT_EQ(parsed.world, 8);
}

TEST(Parse, NamesTheNearestFlag) {
  for (const char* word : {"--wrld", "--wrld=8"}) {
    const Parsed parsed = parse_words({word});
    EXPECT_EQ(parsed.code, kBadUsage);
    EXPECT_NE(parsed.messages.find("unknown flag '--wrld'; did you mean '--world'?"),
              std::string::npos)
        << parsed.messages;
  }
}

TEST(Parse, NamesTheFlagThatIsMisused) {
  const auto says = [](std::vector<std::string> words) {
    const Parsed parsed = parse_words(std::move(words));
    EXPECT_EQ(parsed.code, kBadUsage);
    return parsed.messages.substr(0, parsed.messages.find('\n'));
  };
  EXPECT_EQ(says({"--world", "8", "--world=9"}), "sample: --world is given twice; give it once");
  EXPECT_EQ(says({"--color=auto", "--color", "never"}),
            "sample: --color is given twice; give it once");
  EXPECT_EQ(says({"--json", "--world"}), "sample: --world needs a value: --world N");
  EXPECT_EQ(says({"--world=", "--json"}), "sample: --world needs a value: --world N");
  EXPECT_EQ(says({"--color"}), "sample: --color needs a value: --color auto|always|never");
  EXPECT_EQ(says({"--json=3"}), "sample: --json takes no value, but '3' is given");
}

TEST(Parse, AChoiceNamesTheWords) {
  CLI::App app("", "sample");
  std::string color;
  add_color(app, color);
  EXPECT_EQ(testkit::message_of<ConfigError>([&] { parse(app, {"--color", "nevr"}); }),
            "--color is 'nevr'; choose one of auto, always, never; did you mean 'never'?");
}

TEST(Parse, RefusesWords) {
  EXPECT_EQ(parse_words({"ranks"}).code, kBadUsage);
}

TEST(Parse, RefusesWhatIsNoWholeNumber) {
  for (const char* text : {"many", "", "8x", "0x10", "1.5", "99999999999999999999", "+8", " 8"}) {
    CLI::App app("", "sample");
    std::optional<int64_t> world;
    add_integer(app, "--world", world, "ranks");
    EXPECT_THROW(parse(app, {"--world", text}), ConfigError) << text;
  }
  EXPECT_EQ(parse_words({"--world", "010"}).world, 10);
  EXPECT_EQ(parse_words({"--world", "-3"}).world, -3);
}

TEST(Parse, HelpIsASuccess) {
  const Parsed parsed = parse_words({"--help"});
  EXPECT_EQ(parsed.code, kOk);
  EXPECT_NE(parsed.messages.find("--world"), std::string::npos);
}

TEST(Guarded, TurnsExceptionsIntoExitCodes) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(guarded([] { return 7; }), 7);
  EXPECT_EQ(guarded([]() -> int { throw ConfigError("tp is odd"); }), kBadUsage);
  EXPECT_EQ(guarded([]() -> int { throw DataError("no such file"); }), kFailed);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "tessera: tp is odd\ntessera: no such file\n");
}

TEST(Guarded, SaysItWhereTheLauncherCannot) {
  setenv("TORCHELASTIC_ERROR_FILE", "/nowhere/error.json", 1);
  testing::internal::CaptureStderr();
  EXPECT_EQ(guarded([]() -> int { throw std::bad_alloc(); }), kFailed);
  unsetenv("TORCHELASTIC_ERROR_FILE");
  EXPECT_TRUE(testing::internal::GetCapturedStderr().starts_with("tessera: out of memory; "));
}

TEST(Guarded, TellsTheLauncherOfARank) {
  const std::string file =
      testing::TempDir() + "guarded-error-" + std::to_string(getpid()) + ".json";
  std::remove(file.c_str());
  setenv("TORCHELASTIC_ERROR_FILE", file.c_str(), 1);
  testing::internal::CaptureStderr();
  EXPECT_EQ(guarded([]() -> int { throw DataError("no such file"); }), kFailed);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");  // The launcher reports it for all ranks.
  unsetenv("TORCHELASTIC_ERROR_FILE");
  std::ifstream stream(file);
  const std::string report((std::istreambuf_iterator<char>(stream)), {});
  EXPECT_NE(report.find("no such file"), std::string::npos) << report;
  std::remove(file.c_str());
}

}  // namespace
}  // namespace tessera::cli
