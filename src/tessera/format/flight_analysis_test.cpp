#include "tessera/format/flight_analysis.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/format/flight_match.h"
#include "tests/testkit/flight.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::FlightRun;
constexpr auto kPending = FlightRun::End::kPending;
const FlightTensor kGrad{{1024}, "Float"};

FlightRun world_of_four() {
  FlightRun run(4);
  run.add_group("world", {0, 1, 2, 3});
  run.add_group("dp", {0, 1, 2, 3});
  run.barrier("world", {0, 1, 2, 3});
  run.collective("dp", "all_reduce", {0, 1, 2, 3}, kGrad);
  return run;
}

TEST(FlightAnalysis, AGoodRunShowsNothing) {
  const FlightAnalysis analysis = analyse_flight(world_of_four().dumps());
  ASSERT_EQ(analysis.ranks.size(), 4U);
  EXPECT_EQ(analysis.ranks[3].host, "node-1");
  EXPECT_EQ(to_string(analysis.ranks[3].place->operation), "all_reduce #1 of group dp");
  EXPECT_TRUE(analysis.ranks[3].place->ended);
  EXPECT_EQ(analysis.ranks[3].place->for_ns, 29'999'500'000);
  EXPECT_TRUE(analysis.missing.empty());
  EXPECT_TRUE(analysis.behind.empty());
  EXPECT_TRUE(analysis.circle.empty());
  EXPECT_TRUE(analysis.together.empty());
  EXPECT_TRUE(analysis.differences.empty());
}

TEST(FlightAnalysis, FindsTheRankBehind) {
  FlightRun run = world_of_four();
  run.barrier("world", {0, 1, 3});
  run.barrier("world", {2}, kPending);
  run.collective("dp", "all_reduce", {0, 1, 3}, kGrad, kPending);
  const FlightAnalysis analysis = analyse_flight(run.dumps());
  ASSERT_EQ(analysis.behind.size(), 1U);
  const FlightLag& lag = analysis.behind[0];
  EXPECT_EQ(lag.rank, GlobalRank{2});
  ASSERT_EQ(lag.waits.size(), 1U);
  EXPECT_EQ(to_string(lag.waits[0].operation), "all_reduce #2 of group dp");
  EXPECT_EQ(lag.waits[0].waiting, to_ranks({0, 1, 3}));
  EXPECT_EQ(lag.waits[0].for_ns, 30'000'000'000);
  EXPECT_TRUE(lag.indirectly.empty());
  EXPECT_EQ(to_string(analysis.ranks[2].place->operation), "barrier #2 of group world");
  EXPECT_FALSE(analysis.ranks[2].place->ended);
  ASSERT_EQ(analysis.together.size(), 1U) << "all have come to the barrier";
  EXPECT_EQ(analysis.together[0].waiting, to_ranks({2}));
  EXPECT_TRUE(analysis.circle.empty());
}

TEST(FlightAnalysis, FollowsChainsToTheirEnd) {
  FlightRun run(4);
  for (const auto& ranks : {std::vector<int64_t>{0, 1}, {1, 2}, {2, 3}}) {
    run.add_group(concat("g", ranks[0]), ranks);
  }
  run.collective("g0", "all_reduce", {0}, kGrad, kPending);
  run.collective("g1", "all_reduce", {1}, kGrad, kPending);
  run.collective("g2", "all_reduce", {2}, kGrad, kPending);
  const FlightAnalysis analysis = analyse_flight(run.dumps());
  ASSERT_EQ(analysis.behind.size(), 1U);
  EXPECT_EQ(analysis.behind[0].rank, GlobalRank{3});
  EXPECT_EQ(analysis.behind[0].waits[0].waiting, to_ranks({2}));
  EXPECT_EQ(analysis.behind[0].indirectly, to_ranks({0, 1}));
  EXPECT_FALSE(analysis.ranks[3].place.has_value()) << "it did nothing yet";
}

TEST(FlightAnalysis, FindsRanksThatWaitForEachOther) {
  FlightRun run(2);
  run.add_group("a", {0, 1});
  run.add_group("b", {0, 1});
  run.collective("a", "all_reduce", {0}, kGrad, kPending);
  run.collective("b", "all_reduce", {1}, kGrad, kPending);
  const FlightAnalysis analysis = analyse_flight(run.dumps());
  EXPECT_TRUE(analysis.behind.empty());
  ASSERT_EQ(analysis.circle.size(), 2U);
  EXPECT_EQ(analysis.circle[0].absent, to_ranks({1}));
  EXPECT_EQ(analysis.circle[1].absent, to_ranks({0}));
}

TEST(FlightAnalysis, MessagesWaitForTheirOtherEnd) {
  FlightRun run(4);
  run.add_group("pp", {2, 0, 3});  // Group ranks are not in the order of global ranks.
  run.send("pp", 2, 3, kGrad);
  run.recv("pp", 3, 2, kGrad);
  run.recv("pp", 3, 2, kGrad, kPending);
  run.send("pp", 0, 3, kGrad);
  const FlightAnalysis analysis = analyse_flight(run.dumps());
  ASSERT_EQ(analysis.behind.size(), 1U);
  EXPECT_EQ(analysis.behind[0].rank, GlobalRank{2});
  EXPECT_EQ(to_string(analysis.behind[0].waits[0].operation), "recv from rank 2 #2 of group pp");
  EXPECT_EQ(analysis.behind[0].waits[0].waiting, to_ranks({3}));
}

TEST(FlightAnalysis, RanksWithoutADumpAreNamedAndSuspected) {
  FlightRun run = world_of_four();
  run.collective("dp", "all_reduce", {0, 1, 3}, kGrad, kPending);
  std::vector<FlightDump> dumps = run.dumps();
  dumps.erase(dumps.begin() + 2);
  const FlightAnalysis analysis = analyse_flight(dumps);
  EXPECT_EQ(analysis.missing, to_ranks({2}));
  ASSERT_EQ(analysis.behind.size(), 1U);
  EXPECT_EQ(analysis.behind[0].rank, GlobalRank{2});
}

TEST(FlightAnalysis, OldEntriesThatWereDroppedAreNoLag) {
  FlightRun run = world_of_four();
  run.collective("dp", "all_reduce", {0, 1, 2, 3}, kGrad, kPending);
  run.keep_last(1, 0);
  const FlightAnalysis analysis = analyse_flight(run.dumps());
  EXPECT_TRUE(analysis.behind.empty());
  EXPECT_EQ(analysis.together.size(), 1U);
}

TEST(FlightAnalysis, OperationsThatDiffer) {
  FlightRun run = world_of_four();
  run.collective("dp", "all_reduce", {0, 1, 3}, kGrad, kPending);
  run.collective("dp", "all_reduce", {2}, {{512}, "Float"}, kPending);
  run.collective("world", "broadcast", {0}, kGrad, kPending);
  run.collective("world", "all_reduce", {1, 2, 3}, kGrad, kPending);
  run.collective("dp", "all_reduce", {0, 1}, kGrad);
  run.collective("dp", "all_reduce", {2, 3}, {{1024}, "BFloat16"});
  const FlightAnalysis analysis = analyse_flight(run.dumps());
  ASSERT_EQ(analysis.differences.size(), 3U);
  EXPECT_EQ(analysis.differences[0].variants[1].what, "broadcast Float[1024]");
  const FlightDifference& shape = analysis.differences[1];
  EXPECT_EQ(to_string(shape.operation), "all_reduce #2 of group dp");
  ASSERT_EQ(shape.variants.size(), 2U);
  EXPECT_EQ(shape.variants[0].what, "all_reduce Float[1024]");
  EXPECT_EQ(shape.variants[0].ranks, to_ranks({0, 1, 3}));
  EXPECT_EQ(shape.variants[1].what, "all_reduce Float[512]");
  EXPECT_EQ(shape.variants[1].ranks, to_ranks({2}));
  EXPECT_EQ(analysis.differences[2].variants[0].what, "all_reduce BFloat16[1024]");
}

TEST(FlightAnalysis, UnevenOperationsDoNotDiffer) {
  FlightRun run(2);
  run.add_group("dp", {0, 1});
  for (const char* name : {"all_to_all", "gather", "scatter"}) {
    run.collective("dp", name, {0}, {{3}, "Float"});
    run.collective("dp", name, {1}, {{5}, "Float"});
  }
  std::vector<FlightDump> dumps = run.dumps();
  EXPECT_TRUE(analyse_flight(dumps).differences.empty());
  dumps[1].entries[0].inputs[0].dtype = "Half";
  EXPECT_EQ(analyse_flight(dumps).differences.size(), 1U);
  FlightEntry& gather = dumps[1].entries[1];
  dumps[0].entries[1].profiling_name = gather.profiling_name = "gloo:all_gather";
  gather.inputs[0].sizes = {7};
  gather.outputs = dumps[0].entries[1].outputs;
  EXPECT_EQ(analyse_flight(dumps).differences.size(), 1U) << "uneven, but with the same result";
}

TEST(FlightAnalysis, AMessageThatIsReceivedAsAnotherDiffers) {
  FlightRun run(2);
  run.add_group("pp", {0, 1});
  run.send("pp", 0, 1, kGrad);
  run.recv("pp", 1, 0, kGrad);
  EXPECT_TRUE(analyse_flight(run.dumps()).differences.empty());
  run.send("pp", 0, 1, kGrad);
  run.recv("pp", 1, 0, {{8}, "Float"});
  const FlightAnalysis analysis = analyse_flight(run.dumps());
  ASSERT_EQ(analysis.differences.size(), 1U);
  EXPECT_EQ(analysis.differences[0].operation.sequence, 2);
  EXPECT_EQ(analysis.differences[0].variants[0].what, "send to rank 1 Float[1024]");
  EXPECT_EQ(analysis.differences[0].variants[1].what, "recv from rank 0 Float[8]");
}

TEST(FlightAnalysis, GroupsOfOneNameAndOtherRanksAreApart) {
  FlightRun run(4);
  run.add_group("dp", {0, 1});
  run.add_group("dp", {2, 3});
  run.collective("dp", "all_reduce", {0, 1}, kGrad);
  run.collective("dp", "broadcast", {2, 3}, kGrad);
  EXPECT_TRUE(analyse_flight(run.dumps()).differences.empty());
}

TEST(FlightAnalysis, DumpsThatDoNotBelongTogether) {
  const std::vector<std::string> origins{"a", "b"};
  const auto refusal = [&](auto change) {
    std::vector<FlightDump> dumps = FlightRun(2).dumps();
    change(dumps[1]);
    return testkit::message_of<ConfigError>([&] { check_one_run(dumps, origins); });
  };
  check_one_run(FlightRun(2).dumps(), origins);
  EXPECT_EQ(refusal([](FlightDump& dump) { dump.job = "x"; }),
            "a and b are from different jobs, 'job-7' and 'x'; give the dumps of one job");
  EXPECT_EQ(refusal([](FlightDump& dump) { dump.restart = 1; }),
            "a and b are from different attempts, restart 0 and 1; give the dumps of one attempt");
  EXPECT_EQ(refusal([](FlightDump& dump) { dump.world_size = 4; }),
            "a and b are from different worlds, of 2 and 4 ranks; give the dumps of one job");
  EXPECT_EQ(refusal([](FlightDump& dump) { dump.rank = GlobalRank{0}; }),
            "a and b are both from rank 0; give one dump per rank");
}

TEST(FlightMatch, NamesThatSayNoRanksMeetNobody) {
  const FlightGroup group{.ranks = to_ranks({4, 7})};
  const auto message = [&](const std::string& name) {
    return message_of(group, {.profiling_name = name, .is_p2p = true});
  };
  EXPECT_EQ(message("gloo:send 0->1"), (FlightMessage{GroupRank{0}, GroupRank{1}}));
  EXPECT_EQ(message("nccl:recv 0<-1"), (FlightMessage{GroupRank{1}, GroupRank{0}}));
  for (const char* name : {"gloo:send 0->2", "gloo:send -1->0", "gloo:send 0<-1", "gloo:send",
                           "gloo:recv 0->1", "gloo:send 0->", "gloo:all_reduce", ""}) {
    EXPECT_FALSE(message(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace tessera
