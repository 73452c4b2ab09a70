// Every collective on real ranks, for all dtypes, uneven sizes and groups of every size, compared
// with values computed here.
#include "tessera/comm/collectives.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <future>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tests/testkit/device.h"
#include "tests/testkit/ranks.h"

namespace tessera {
namespace {

using testkit::here;
using testkit::run_ranks;

const std::vector<at::ScalarType> kDtypes{at::kFloat, at::kDouble, at::kHalf,  at::kBFloat16,
                                          at::kLong,  at::kInt,    at::kShort, at::kChar,
                                          at::kByte,  at::kBool};

// Small integers that differ by rank: they and their sums over 8 ranks are exact in every dtype.
at::Tensor values(int64_t rank, at::IntArrayRef shape, at::ScalarType dtype) {
  const at::Tensor counting = at::arange(at::empty(shape).numel(), here()).reshape(shape);
  return counting.add(rank).remainder(3).to(dtype);
}

at::Tensor reduced(const Group& group, at::IntArrayRef shape, at::ScalarType dtype, ReduceOp op) {
  std::vector<at::Tensor> all;
  for (const GlobalRank rank : group.ranks()) all.push_back(values(rank.value, shape, dtype));
  const bool is_bool = dtype == at::kBool;
  const at::Tensor stack = at::stack(all).to(is_bool ? at::kInt : at::kDouble);
  switch (op) {
    case ReduceOp::kSum:
      return is_bool ? stack.amax(0).to(dtype) : stack.sum(0).to(dtype);
    case ReduceOp::kAvg:
      return stack.sum(0).to(dtype).div(group.size());
    case ReduceOp::kMin:
      return stack.amin(0).to(dtype);
    case ReduceOp::kMax:
      return stack.amax(0).to(dtype);
    default:
      return is_bool ? stack.amin(0).to(dtype) : stack.prod(0).to(dtype);
  }
}

void check_reductions(const Group& group, int64_t me) {
  for (const at::ScalarType dtype : kDtypes) {
    for (const ReduceOp op :
         {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
      if (op == ReduceOp::kAvg && !at::isFloatingType(dtype)) continue;
      const at::Tensor expected = reduced(group, {3, 2}, dtype, op);
      const at::Tensor tensor = values(me, {3, 2}, dtype);
      const at::Tensor result = all_reduce(tensor, group, op).wait();
      RANK_EXPECT(result.equal(expected))
          << "all_reduce " << at::toString(dtype) << result << expected;
      RANK_EXPECT(tensor.equal(expected)) << "all_reduce works in place";
      const GroupRank last{group.size() - 1};
      const at::Tensor one = values(me, {3, 2}, dtype);
      (void)reduce(one, last, group, op).wait();
      RANK_EXPECT(one.equal(group.rank() == last ? expected : values(me, {3, 2}, dtype)));
    }
  }
  const at::Tensor strided = values(me, {4, 3}, at::kFloat).t();
  (void)all_reduce(strided, group).wait();
  RANK_EXPECT(strided.equal(reduced(group, {4, 3}, at::kFloat, ReduceOp::kSum).t()))
      << "not contiguous";
}

void check_moves(const Group& group, int64_t me) {
  const int64_t size = group.size();
  RANK_EXPECT(broadcast(at::empty({0, 3}, here()), GroupRank{0}, group).wait().numel() == 0)
      << "nothing to send";
  for (const at::ScalarType dtype : kDtypes) {
    for (int64_t src = 0; src < size; ++src) {
      const at::Tensor tensor = values(me, {2, 3}, dtype);
      (void)broadcast(tensor, GroupRank{src}, group).wait();
      RANK_EXPECT(tensor.equal(values(group.global_rank(GroupRank{src}).value, {2, 3}, dtype)));
    }
    std::vector<at::Tensor> all;
    for (const GlobalRank rank : group.ranks()) all.push_back(values(rank.value, {2, 3}, dtype));
    for (const int64_t dim : {0, 1, -1}) {
      RANK_EXPECT(
          all_gather(values(me, {2, 3}, dtype), group, dim).wait().equal(at::cat(all, dim)));
    }
    const auto gathered = gather(values(me, {2, 3}, dtype), GroupRank{0}, group).wait();
    RANK_EXPECT(gathered.size() == (group.rank() == 0 ? all.size() : 0));
    for (size_t i = 0; i < gathered.size(); ++i) RANK_EXPECT(gathered[i].equal(all[i]));
    const at::Tensor mine = at::empty({2, 3}, here(dtype));
    (void)scatter(mine, all, GroupRank{size - 1}, group).wait();
    RANK_EXPECT(mine.equal(all[static_cast<size_t>(group.rank().value)]));
  }
}

// Large tensors use another code path. Two operations at once, waited for in reverse order.
void check_large_gathers(const Group& group, int64_t me) {
  const Sizes shape{200, 1500 / group.size()};  // More than a mebibyte together.
  std::vector<at::Tensor> all;
  for (const GlobalRank rank : group.ranks()) all.push_back(values(rank.value, shape, at::kFloat));
  const at::Tensor mine = values(me, shape, at::kFloat);
  Work rows = all_gather(mine, group, 0);
  Work columns = all_gather(mine.t(), group, 0);
  RANK_EXPECT(std::move(columns).wait().equal(at::cat(all, 1).t()));
  RANK_EXPECT(std::move(rows).wait().equal(at::cat(all)));
  const std::vector<at::Tensor> uneven =
      all_gather_uneven(mine.narrow(0, 0, 200 - group.rank().value), group).wait();
  for (size_t i = 0; i < all.size(); ++i) {
    RANK_EXPECT(uneven[i].equal(all[i].narrow(0, 0, 200 - static_cast<int64_t>(i))));
  }
}

// Rank r of the group has r rows; rank 0 none.
void check_uneven_gather(const Group& group) {
  const int64_t rows = group.rank().value;
  const auto all = all_gather_uneven(at::full({rows, 2}, rows, here()), group).wait();
  RANK_EXPECT(static_cast<int64_t>(all.size()) == group.size());
  for (int64_t r = 0; r < group.size(); ++r) {
    RANK_EXPECT(all[static_cast<size_t>(r)].equal(at::full({r, 2}, r, here())))
        << all[static_cast<size_t>(r)];
  }
  const auto shapes =
      all_gather_uneven(rows % 2 == 0 ? at::ones({}, here()) : at::ones({1, rows}, here()), group)
          .wait();
  for (int64_t r = 0; r < group.size(); ++r) {
    RANK_EXPECT(shapes[static_cast<size_t>(r)].dim() == (r % 2 == 0 ? 0 : 2));
  }
}

// A device whose tensors the group sends over Gloo, since NCCL cannot do everything.
at::TensorOptions over_gloo(const Group& group) {
  return group.backend() == Backend::kNccl ? at::TensorOptions(at::kCPU) : here();
}

// The only reduction over Gloo that supports bitwise operations.
void check_bits(const Group& group, int64_t me) {
  const auto bits = [&](int64_t rank) {
    return values(rank, {group.size()}, at::kInt).to(over_gloo(group).device());
  };
  using Combine = at::Tensor (*)(const at::Tensor&, const at::Tensor&);
  const std::vector<std::pair<ReduceOp, Combine>> ops{{ReduceOp::kBitAnd, at::bitwise_and},
                                                      {ReduceOp::kBitOr, at::bitwise_or},
                                                      {ReduceOp::kBitXor, at::bitwise_xor}};
  for (const auto& [op, combine] : ops) {
    at::Tensor whole = bits(group.ranks().front().value);
    for (const GlobalRank rank : std::span(group.ranks()).subspan(1)) {
      whole = combine(whole, bits(rank.value));
    }
    const at::Tensor mine = reduce_scatter(bits(me), group, op).wait();
    RANK_EXPECT(mine.equal(whole.narrow(0, group.rank().value, 1)));
  }
}

void check_reduce_scatter(const Group& group, int64_t me) {
  const int64_t size = group.size();
  const int64_t r = group.rank().value;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kLong, at::kBool}) {
    const at::Tensor sum = reduced(group, {2 * size, 3}, dtype, ReduceOp::kSum);
    RANK_EXPECT(reduce_scatter(values(me, {2 * size, 3}, dtype), group)
                    .wait()
                    .equal(sum.narrow(0, 2 * r, 2)));
    const at::Tensor wide = reduced(group, {3, size}, dtype, ReduceOp::kMax);
    RANK_EXPECT(reduce_scatter(values(me, {3, size}, dtype), group, ReduceOp::kMax, 1)
                    .wait()
                    .equal(wide.narrow(1, r, 1)));
  }
  for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kProduct}) {
    const at::Tensor whole = reduced(group, {2 * size}, at::kInt, op);
    RANK_EXPECT(reduce_scatter(values(me, {2 * size}, at::kInt), group, op)
                    .wait()
                    .equal(whole.narrow(0, 2 * r, 2)));
  }
  Sizes pieces(static_cast<size_t>(size), 1);
  pieces[0] = 0;  // The first rank gets nothing, the last one three rows.
  pieces.back() = 3;
  int64_t total = 0;
  for (const int64_t piece : pieces) total += piece;
  const int64_t begin = r == 0 ? 0 : r - 1;
  const at::Tensor sum = reduced(group, {total, 2}, at::kFloat, ReduceOp::kAvg);
  const at::Tensor got =
      reduce_scatter(values(me, {total, 2}, at::kFloat), group, ReduceOp::kAvg, 0, pieces).wait();
  RANK_EXPECT(got.equal(sum.narrow(0, size == 1 ? 0 : begin, pieces[static_cast<size_t>(r)])))
      << got;
}

// Rank i sends i + j rows to rank j, filled with 10·i + j.
void check_all_to_all(const Group& group) {
  const int64_t me = group.rank().value;
  Sizes send;
  Sizes receive;
  std::vector<at::Tensor> input{at::empty({0, 2}, here())};
  std::vector<at::Tensor> expected{at::empty({0, 2}, here())};
  for (int64_t peer = 0; peer < group.size(); ++peer) {
    send.push_back(me + peer);
    receive.push_back(peer + me);
    input.push_back(at::full({me + peer, 2},
                             10.0 * static_cast<double>(me) + static_cast<double>(peer), here()));
    expected.push_back(at::full(
        {peer + me, 2}, 10.0 * static_cast<double>(peer) + static_cast<double>(me), here()));
  }
  RANK_EXPECT(all_to_all(at::cat(input), send, receive, group).wait().equal(at::cat(expected)));
  const at::Tensor equal =
      all_to_all(at::full({group.size(), 2}, me, here(at::kLong)), group).wait();
  RANK_EXPECT(equal.equal(at::arange(group.size(), here()).unsqueeze(1).expand({group.size(), 2})));
}

// Every rank sends to both neighbours at once.
void check_p2p(const Group& group) {
  if (group.size() == 1) return;
  const int64_t me = group.rank().value;
  const GroupRank next{(me + 1) % group.size()};
  const GroupRank previous{(me + group.size() - 1) % group.size()};
  at::Tensor out = at::full({4}, me, here(at::kShort));
  at::Tensor in = at::zeros({4}, here(at::kShort));
  const std::vector<P2p> batch{{P2p::Kind::kRecv, in, previous}, {P2p::Kind::kSend, out, next}};
  (void)batch_send_recv(batch, group).wait();
  RANK_EXPECT(batch_send_recv({}, group).wait().empty());
  RANK_EXPECT(in.equal(at::full({4}, previous.value, here(at::kShort))));
  at::Tensor strided = at::zeros({2, 3}, here()).t();
  if (me == 0) (void)send(at::ones({3, 2}, here()), GroupRank{1}, group, 7).wait();
  if (me == 1) (void)recv(strided, GroupRank{0}, group, 7).wait();
  RANK_EXPECT(strided.equal(me == 1 ? at::ones({3, 2}, here()) : at::zeros({3, 2}, here())));
}

void check_coalesced(const Group& group, int64_t me) {
  const std::vector<at::Tensor> tensors{values(me, {2, 3}, at::kFloat),
                                        values(me, {5}, at::kFloat)};
  (void)all_reduce_coalesced(tensors, group).wait();
  RANK_EXPECT(tensors[0].equal(reduced(group, {2, 3}, at::kFloat, ReduceOp::kSum)));
  RANK_EXPECT(tensors[1].equal(reduced(group, {5}, at::kFloat, ReduceOp::kSum)));
  const std::vector<at::Tensor> mixed{values(me, {2, 1}, at::kLong), values(me, {3}, at::kBool)};
  const auto gathered = all_gather_coalesced(mixed, group).wait();
  std::vector<at::Tensor> longs;
  for (const GlobalRank rank : group.ranks())
    longs.push_back(values(rank.value, {2, 1}, at::kLong));
  RANK_EXPECT(gathered[0].equal(at::cat(longs)));
  RANK_EXPECT(gathered[1].size(0) == 3 * group.size());
  const std::vector<at::Tensor> pieces{values(me, {group.size(), 2}, at::kDouble),
                                       values(me, {2 * group.size()}, at::kDouble)};
  const auto mine = reduce_scatter_coalesced(pieces, group).wait();
  const int64_t r = group.rank().value;
  RANK_EXPECT(mine[0].equal(
      reduced(group, {group.size(), 2}, at::kDouble, ReduceOp::kSum).narrow(0, r, 1)));
  RANK_EXPECT(mine[1].equal(
      reduced(group, {2 * group.size()}, at::kDouble, ReduceOp::kSum).narrow(0, 2 * r, 2)));
}

// Several operations in flight, waited for in another order.
void check_overlap(const Group& group, int64_t me) {
  Work first = all_reduce(at::full({1000}, me, here(at::kDouble)), group);
  Work second = all_gather(at::full({1}, me, here(at::kLong)), group);
  RANK_EXPECT(std::move(second).wait().numel() == group.size());
  RANK_EXPECT(std::move(first).wait().numel() == 1000);
}

template <class Body>
void expect_refused(Body&& body) {
  std::string instead = "nothing was thrown";
  try {
    body();
  } catch (const ConfigError&) {
    instead.clear();
  } catch (const std::exception& error) {
    instead = error.what();
  }
  RANK_EXPECT(instead.empty()) << instead;
}

// Inputs that engines would refuse with a lost group, or compute wrongly.
void check_unsendable(const Group& group) {
  const at::Tensor overlapping = at::ones({1}, here()).expand({4});
  const at::Tensor complex = at::ones({2}, here(at::kComplexFloat));
  for (const at::Tensor& tensor :
       {overlapping, complex, complex.conj(), at::ones({2}, here(at::kUInt16)),
        at::ones({2}, here()).to(at::kFloat8_e4m3fn), at::ones({2}, here()).to_sparse(),
        at::ones({2}, at::TensorOptions(at::kMeta))}) {
    expect_refused([&] { (void)all_reduce(tensor, group).wait(); });
    expect_refused([&] { (void)all_reduce_coalesced({&tensor, 1}, group).wait(); });
  }
  expect_refused([&] { (void)broadcast(overlapping, GroupRank{0}, group).wait(); });
  expect_refused([&] { (void)recv(overlapping, GroupRank{0}, group).wait(); });
  const P2p nothing{P2p::Kind::kSend, at::Tensor(), GroupRank{0}};
  expect_refused([&] { (void)batch_send_recv({&nothing, 1}, group).wait(); });
  expect_refused([&] { (void)all_reduce(at::ones({2}, here()), group, ReduceOp::kBitOr).wait(); });
  // They can be sent, however: values and bits arrive.
  const at::Tensor conjugate =
      at::full({2}, c10::complex<float>(1, 2), here(at::kComplexFloat)).conj();
  RANK_EXPECT(all_gather(conjugate, group).wait().equal(conjugate.repeat({group.size()})));
  const at::Tensor wide = all_gather(overlapping, group).wait();
  RANK_EXPECT(wide.equal(at::ones({4 * group.size()}, here())));
}

// The end of an operation is seen without waiting for it, whether Gloo does it as a collective or
// as messages.
void check_ends(const Group& group) {
  const auto seen_end = [&](Work work) {
    std::promise<void> ended;
    work.on_complete([&] { ended.set_value(); });
    ended.get_future().wait();
    return std::move(work).wait();
  };
  const at::TensorOptions options = over_gloo(group);
  const at::Tensor ones = at::ones({2 * group.size()}, options);
  const at::Tensor large = at::ones({1 << 18}, options);
  RANK_EXPECT(seen_end(all_reduce(ones.clone(), group)).equal(ones * group.size()));
  RANK_EXPECT(seen_end(all_gather(large, group)).equal(large.repeat({group.size()})));
  RANK_EXPECT(seen_end(reduce_scatter(ones, group)).equal(at::full({2}, group.size(), options)));
}

// The root by its global rank or by its group rank.
void check_roots(const Group& group, int64_t me) {
  for (const GlobalRank src : group.ranks()) {
    const at::Tensor tensor = at::full({2}, me, here(at::kLong));
    (void)broadcast(tensor, src, group).wait();
    RANK_EXPECT(tensor.equal(at::full({2}, src.value, here(at::kLong))));
    (void)broadcast(tensor, *group.group_rank(src), group).wait();
    RANK_EXPECT(tensor.equal(at::full({2}, src.value, here(at::kLong))));
  }
  expect_refused([&] { (void)broadcast(at::ones({1}), GlobalRank{1000}, group).wait(); });
}

void check_refusals(const Group& group) {
  const at::Tensor tensor = at::ones({2}, here());
  expect_refused([&] { (void)broadcast(tensor, GroupRank{group.size()}, group).wait(); });
  expect_refused([&] { (void)all_reduce(at::Tensor(), group).wait(); });
  expect_refused(
      [&] { (void)all_reduce(at::ones({2}, here(at::kInt)), group, ReduceOp::kAvg).wait(); });
  expect_refused([&] { (void)all_gather(tensor, group, 1).wait(); });
  if (group.size() > 1) {
    const GroupRank other{group.rank().value == 0 ? 1 : 0};
    expect_refused([&] { (void)send(tensor, other, group, -1).wait(); });
  }
  expect_refused([&] { (void)all_to_all(tensor, Sizes{1}, Sizes{1, 1}, group).wait(); });
  if (group.size() > 2) expect_refused([&] { (void)reduce_scatter(tensor, group).wait(); });
  check_unsendable(group);
  // After an error before anything is sent, the group is still usable.
  barrier(group);
}

void check_agreement(const Group& group) {
  agree(true, group, "all is well");
  expect_refused([&] { agree(group.rank().value != 0, group, "rank 0 is well"); });
}

void check_group(const Group& group, int64_t me) {
  check_reductions(group, me);
  check_moves(group, me);
  check_large_gathers(group, me);
  check_uneven_gather(group);
  check_reduce_scatter(group, me);
  check_bits(group, me);
  check_all_to_all(group);
  check_p2p(group);
  check_coalesced(group, me);
  check_overlap(group, me);
  check_ends(group);
  check_roots(group, me);
  check_refusals(group);
  check_agreement(group);
  barrier(group);
}

// The world, each rank alone, the even ranks, and the ranks in reverse order.
void sweep(World& world) {
  const int64_t me = world.rank().value;
  check_group(world.group(), me);
  check_group(world.group({world.rank()}), me);
  RankGroup even;
  RankGroup backwards;
  for (int64_t rank = 0; rank < world.size(); ++rank) {
    if (rank % 2 == 0) even.emplace_back(rank);
    backwards.insert(backwards.begin(), GlobalRank{rank});
  }
  const Group evens = world.group(even, {.name = "even"});
  RANK_EXPECT(evens.is_member() == (me % 2 == 0));
  if (evens.is_member()) check_group(evens, me);
  check_group(world.group(backwards, {.lane = Lane::kReduce}), me);
}

// Failures after the engine has ended are reported like failures of the engine.
void fail_at_the_end(World& world) {
  const Group group = world.group(world.group().ranks(), {.name = "spoilt", .lane = Lane::kGather});
  const at::Tensor strided = at::ones({2, 3}).t();
  Work work = all_reduce(strided, group);
  strided.resize_({1});
  std::string message;
  try {
    (void)std::move(work).wait();
  } catch (const CommError& error) {
    message = error.what();
  }
  RANK_EXPECT(message.find("all_reduce #1 of group spoilt failed on this rank") == 0) << message;
  barrier(world.group());
}

TEST(Collectives, FailuresAtTheEndAreCommErrors) {
  run_ranks(2, fail_at_the_end);
}
TEST(Collectives, World1) {
  run_ranks(1, sweep);
}
TEST(Collectives, World2) {
  run_ranks(2, sweep);
}
TEST(Collectives, World3) {
  run_ranks(3, sweep);
}
TEST(Collectives, World4) {
  run_ranks(4, sweep);
}
TEST(Collectives, World8) {
  run_ranks(8, sweep);
}

}  // namespace
}  // namespace tessera
