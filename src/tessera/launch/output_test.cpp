#include "tessera/launch/output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

namespace tessera {
namespace {

TEST(LinePrefixer, PutsThePrefixBeforeWholeLines) {
  LinePrefixer lines("[1] ");
  EXPECT_EQ(lines.add("a\nb"), "[1] a\n");
  EXPECT_EQ(lines.add("c"), "");
  EXPECT_EQ(lines.add("\n\n"), "[1] bc\n[1] \n");
  EXPECT_EQ(lines.add("end"), "");
  EXPECT_EQ(lines.finish(), "[1] end\n");
  EXPECT_EQ(lines.finish(), "");
}

TEST(LinePrefixer, ACarriageReturnEndsALineToo) {
  LinePrefixer lines("> ");
  EXPECT_EQ(lines.add("10%\r20%\r"), "> 10%\n> 20%\n");
  EXPECT_EQ(lines.add("\nnext\r"), "> next\n") << "the pair in two pieces is one end";
  EXPECT_EQ(lines.add("x\r\ny\n"), "> x\n> y\n");
}

TEST(LinePrefixer, LinesWithoutAnEndAreCut) {
  LinePrefixer lines("> ");
  const std::string piece(10'000, 'x');
  std::string all;
  for (int i = 0; i < 20; ++i) all += lines.add(piece);
  all += lines.finish();
  EXPECT_EQ(std::ranges::count(all, 'x'), 200'000);
  EXPECT_EQ(std::ranges::count(all, '\n'), 4);
  EXPECT_EQ(all.find('\n'), 2 + LinePrefixer::kLongestLine);
}

TEST(Tail, KeepsTheEndInLittleMemory) {
  Tail tail;
  for (int i = 0; i < 10'000; ++i) tail.add("line " + std::to_string(i) + "\n");
  EXPECT_LE(tail.text().size(), 2 * Tail::kBytes);
  EXPECT_TRUE(tail.text().ends_with("line 9998\nline 9999\n"));
}

TEST(Tail, LastLinesAreShortAndPlain) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(last_lines("a\nb\nc\n", 2, 80), (Lines{"b", "c"}));
  EXPECT_EQ(last_lines("", 2, 80), Lines{});
  EXPECT_EQ(last_lines("\n  \n\n", 2, 80), Lines{});
  EXPECT_EQ(last_lines("1%\r2%\rdone", 2, 80), (Lines{"2%", "done"}));
  EXPECT_EQ(last_lines("\x1b[1;31mred\x1b[0m\a!", 2, 80), (Lines{"red!"}));
  EXPECT_EQ(last_lines("abcdef", 2, 3), (Lines{"abc…"}));
  EXPECT_EQ(
      last_lines("wrong\nException raised from f at x.cpp:1:\nframe #0: a\nframe #1: b\n", 1, 80),
      (Lines{"wrong"}));
  EXPECT_EQ(last_lines("aäb", 2, 2), (Lines{"a…"})) << "no half characters";
}

TEST(Sink, KeepsWhatAFullPipeDoesNotTake) {
  signal(SIGPIPE, SIG_IGN);
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  EventLoop loop;
  Sink sink(loop, ends[1]);
  for (int i = 0; i < 3000 && !sink.is_full(); ++i) sink.write(std::string(1000, 'x'));
  EXPECT_TRUE(sink.is_full());
  std::string seen(100'000, '\0');
  size_t total = 0;
  for (int i = 0; i < 100'000 && sink.is_full(); ++i) {
    total += static_cast<size_t>(read(ends[0], seen.data(), seen.size()));
    loop.wait(Clock::now());
  }
  EXPECT_FALSE(sink.is_full());
  EXPECT_GT(total, 0U);
  close(ends[0]);
  sink.flush(Clock::now() + std::chrono::seconds(10));
  EXPECT_TRUE(sink.is_broken());
  close(ends[1]);
}

}  // namespace
}  // namespace tessera
