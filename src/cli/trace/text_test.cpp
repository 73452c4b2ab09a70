#include <gtest/gtest.h>

#include <sstream>

#include "cli/trace/text.h"
#include "tests/testkit/flight.h"

namespace tessera::cli {
namespace {

using testkit::FlightRun;
constexpr auto kPending = FlightRun::End::kPending;
const FlightTensor kGrad{{8}, "Float"};

std::string text_of(const std::vector<FlightDump>& dumps) {
  std::ostringstream out;
  write_flight_text("job 7", analyse_flight(dumps), ColorMode::kNone, out);
  return out.str();
}

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks: " << part;
}

TEST(TraceText, SpellsTimes) {
  EXPECT_EQ(time_text(0), "0.0 ms");
  EXPECT_EQ(time_text(440'000), "0.4 ms");
  EXPECT_EQ(time_text(31'240'000'000), "31.2 s");
  EXPECT_EQ(time_text(125'000'000'000), "2 min 5 s");
  EXPECT_EQ(time_text(11'520'000'000'000), "3 h 12 min");
}

TEST(TraceText, NamesWhoWaitsForWhomAndWhoForThose) {
  FlightRun run(4);
  run.add_group("tp", {0, 1});
  run.add_group("dp", {1, 2, 3});
  run.collective("tp", "all_gather", {0}, kGrad, kPending);
  run.collective("dp", "all_reduce", {1, 3}, kGrad, kPending);
  expect_in(text_of(run.dumps()),
            "\nrank 2 is behind: it has done no operation yet\n"
            "  ranks 1,3 wait for it in all_reduce #1 of group dp for 30.0 s\n"
            "  rank 0 waits for those\n");
}

TEST(TraceText, NamesCircles) {
  FlightRun run(2);
  run.add_group("a", {0, 1});
  run.add_group("b", {0, 1});
  run.collective("a", "all_reduce", {0}, kGrad, kPending);
  run.collective("b", "all_reduce", {1}, kGrad, kPending);
  expect_in(text_of(run.dumps()),
            "\nranks wait for each other:\n"
            "  rank 0 for rank 1 in all_reduce #1 of group a for 30.0 s\n"
            "  rank 1 for rank 0 in all_reduce #1 of group b for 30.0 s\n");
}

TEST(TraceText, LargeWorldsStayReadable) {
  FlightRun run(1000);
  std::vector<int64_t> all(1000);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
  run.add_group("world", all);
  run.collective("world", "all_reduce", {999}, kGrad, kPending);
  const std::string text = text_of(run.dumps());
  EXPECT_LT(std::ranges::count(text, '\n'), 100);
  expect_in(text, "… and 936 more ranks\n");
  expect_in(text, "\nrank 7 is behind: it has done no operation yet\n");
  expect_in(text, "… and 991 more\n");
}

TEST(TraceText, LongNamesAreCut) {
  FlightRun run(1);
  std::vector<FlightDump> dumps = run.dumps();
  dumps[0].host = "a-very-long-name.of-a-host.example.com";
  expect_in(text_of(dumps), "   0  a-very-long-name.of…  none yet\n");
}

}  // namespace
}  // namespace tessera::cli
