// What people see: names from files are spelt, terminals get what they can show.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"
#include "tessera/format/safetensors.h"
#include "tests/testkit/process.h"
#include "tests/testkit/temporary_folder.h"

namespace tessera {
namespace {

using testkit::TemporaryFolder;

const std::string kProgram = TESSERA_PROGRAM " ";

/// Runs a shell command on a terminal of 80 columns; all that it wrote there.
std::string on_terminal(const std::string& command) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY);
  grantpt(master);
  unlockpt(master);
  const std::string name = ptsname(master);
  const int slave = open(name.c_str(), O_RDWR | O_NOCTTY);
  const winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  ioctl(slave, TIOCSWINSZ, &size);
  std::string seen;
  std::thread reader([&] {
    std::array<char, 4096> part{};
    for (ssize_t got = 0; (got = read(master, part.data(), part.size())) > 0;) {
      seen.append(part.data(), static_cast<size_t>(got));
    }
  });
  const int status = std::system(("( " + command + " ) >" + name + " 2>&1 <" + name).c_str());
  EXPECT_EQ(status, 0) << seen;
  close(slave);  // The last one: the reader ends.
  reader.join();
  close(master);
  return seen;
}

bool is_ascii(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return c >= 0; });
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void expect_spelt(const std::string& text, const std::string& name) {
  EXPECT_NE(text.find(name), std::string::npos) << text.substr(0, 2000);
  EXPECT_EQ(visible_lines(text), text);
}

TEST(Terminal, NamesOfFilesAreSpeltWhereverTheyAreShown) {
  const TemporaryFolder folder;
  folder.file("a\x1b[31m\xff<b>.csv", "0F0,0B0\r\n");
  const auto shown = testkit::run(concat("cd ", folder.path(), " && ", kProgram,
                                         "schedule --csv-in 'a\x1b[31m\xff<b>.csv' --svg x.svg "
                                         "--html 'p\x1b.html' --color never"));
  ASSERT_EQ(shown.code, 0) << shown.err;
  expect_spelt(shown.out, "a\\x1b[31m\\xff<b>.csv: 1 rank");
  expect_spelt(shown.out, "page: p\\x1b.html\n");
  expect_spelt(content_of(folder.path("x.svg")), "a\\x1b[31m\\xff&lt;b&gt;.csv");
  expect_spelt(content_of(folder.path("p\x1b.html")), "a\\\\x1b[31m\\\\xff\\u003cb>.csv");
}

TEST(Terminal, NamesOfTensorsAreSpelt) {
  const TemporaryFolder folder;
  SafetensorsWriter file(folder.path("w.safetensors"),
                         {{"a\x1b]0;b\x07\n\u202e", DType::kU8, {1}}});
  file.write(std::vector<std::byte>(1));
  file.finish();
  const auto listed = testkit::run(kProgram + "inspect " + folder.path("w.safetensors"));
  EXPECT_EQ(listed.code, 0) << listed.err;
  expect_spelt(listed.out, "a\\x1b]0;b\\x07\\x0a\\xe2\\x80\\xae  U8 ");
}

TEST(Terminal, ADumbOneGetsNoEscapeSequences) {
  for (const char* arguments : {"ranks --world 16 --tp 2", "schedule", "ranks --world 16 --help"}) {
    const std::string plain = on_terminal("TERM=dumb " + kProgram + arguments);
    EXPECT_EQ(plain.find('\x1b'), std::string::npos) << plain;
    EXPECT_GT(plain.size(), 100U);
  }
  EXPECT_NE(on_terminal("TERM=xterm " + kProgram + "schedule").find('\x1b'), std::string::npos);
}

TEST(Terminal, TheLocaleCGetsAscii) {
  for (const char* arguments :
       {"ranks", "ranks --world 4096 --tp 8 --rank 9", "schedule", "schedule --help",
        "ranks --help", "run --help", "--help", "ranks --world 64 --dp 2 || true",
        "ranks --world 64 --to 'ü' || true", "run --nproc 2 false || true"}) {
    SCOPED_TRACE(arguments);
    const std::string plain = on_terminal("LC_ALL=C " + kProgram + arguments);
    EXPECT_TRUE(is_ascii(plain)) << plain;
    EXPECT_FALSE(plain.empty());
  }
  EXPECT_FALSE(is_ascii(on_terminal("LC_ALL=C.UTF-8 " + kProgram + "schedule --color always")));
  EXPECT_NE(testkit::run("LC_ALL=C " + kProgram + "ranks").out.find("..."), std::string::npos);
}

TEST(Terminal, WhatProgramsReadDoesNotDependOnTheLocale) {
  for (const char* arguments : {"schedule --svg -", "schedule --html -", "ranks --json"}) {
    EXPECT_EQ(testkit::run("LC_ALL=C " + kProgram + arguments).out,
              testkit::run("LC_ALL=C.UTF-8 " + kProgram + arguments).out);
  }
}

TEST(Terminal, AReaderThatIsGoneIsNamed) {
  const testkit::Finished finished =
      testkit::run(concat("bash -c 'exec 3> >(true); wait $!; ", kProgram, "ranks >&3'"));
  EXPECT_EQ(finished.code, 1);
  EXPECT_EQ(finished.err,
            "tessera: cannot write the output; is the disk full or the reader gone?\n");
}

TEST(Terminal, LongWorkOnCheckpointsShowsABarThatFitsAndGoes) {
  const TemporaryFolder folder;
  SafetensorsWriter file(folder.path("model.safetensors"), {{"w", DType::kU8, {3 << 20}}});
  file.write(std::vector<std::byte>(3 << 20));
  file.finish();
  const auto command = [&](const char* terminal) {
    const std::string to = folder.path(terminal);
    return concat("export TERM=", terminal, "; ", kProgram, "checkpoint import ", folder.path(),
                  " ", to, " && ", kProgram, "checkpoint verify ", to, " && ", kProgram,
                  "checkpoint reshard ", to, " ", to, "-2 --ranks 2");
  };
  const std::string drawn = on_terminal(command("xterm"));
  for (const char* const word : {"writing", "verifying"}) {
    EXPECT_NE(drawn.find(concat("  ", word, "  ")), std::string::npos) << drawn;
  }
  EXPECT_NE(drawn.find("\r\x1b[K" + folder.path("xterm") + " is whole"), std::string::npos)
      << drawn;
  EXPECT_NE(drawn.find(" left"), std::string::npos) << drawn;
  const std::string plain = on_terminal(command("dumb"));
  EXPECT_EQ(plain.find("writing"), std::string::npos) << plain;
}

#ifdef TESSERA_HAS_TORCH
TEST(Terminal, TrainingKeepsToWhatTheTerminalCan) {
  const TemporaryFolder folder;
  const std::string data = folder.file("text", std::string(4000, 'a'));
  const std::string train =
      concat(kProgram, "train --nproc 1 --steps 4 --batch 2 --seq 16 --data ", data, " --run-dir ");
  const std::string plain = on_terminal(concat("TERM=dumb LC_ALL=C ", train, folder.path("1")));
  EXPECT_EQ(plain.find('\x1b'), std::string::npos) << plain;
  EXPECT_TRUE(is_ascii(plain)) << plain;
  for (size_t at = 0; (at = plain.find('\r', at)) != std::string::npos; ++at) {
    EXPECT_EQ(plain.substr(at, 2), "\r\n");  // Lines end; none is written over.
  }
  const std::string drawn =
      on_terminal(concat("TERM=xterm LC_ALL=C.UTF-8 ", train, folder.path("2")));
  EXPECT_NE(drawn.find("\x1b[K"), std::string::npos) << drawn;
  EXPECT_FALSE(is_ascii(drawn));
}
#endif

}  // namespace
}  // namespace tessera
