#include "tessera/parallel/ddp/internal/report_exchange.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <span>
#include <utility>

#include "tessera/comm/collectives.h"

namespace tessera::ddp::detail {
namespace {

// In float64, which is exact for all of them. Each rank has elements of its own for its pass and
// for its failure, so their sums are what it has said.
at::Tensor numbers_of(const RankReport& own, const Group& group) {
  std::vector<double> numbers(own.present.begin(), own.present.end());
  numbers.insert(numbers.end(), own.replaced.begin(), own.replaced.end());
  numbers.push_back(own.share);
  numbers.push_back(own.refusal.empty() ? 0 : 1);
  const auto num_ranks = static_cast<size_t>(group.size());
  const size_t mine = numbers.size() + static_cast<size_t>(group.rank().value);
  numbers.resize(numbers.size() + 2 * num_ranks);
  numbers[mine] = static_cast<double>(own.pass);
  numbers[mine + num_ranks] = own.failed ? 1 : 0;
  return at::tensor(numbers, at::kDouble);
}

std::vector<bool> any_of(std::span<const double> counts) {
  std::vector<bool> any;
  for (const double count : counts) any.push_back(count > 0);
  return any;
}

}  // namespace

ReportExchange::ReportExchange(const RankReport& own, const Group& group)
    : num_parameters_(own.present.size()),
      num_ranks_(static_cast<size_t>(group.size())),
      work_(all_reduce(numbers_of(own, group), group)) {}

GroupReport ReportExchange::wait() && {
  const at::Tensor sums = std::move(work_).wait();
  const double* end = sums.const_data_ptr<double>();
  const auto next = [&end](size_t count) {
    const std::span<const double> numbers(end, count);
    end += count;
    return numbers;
  };
  GroupReport all{.present = any_of(next(num_parameters_)),
                  .replaced = any_of(next(num_parameters_)),
                  .sum_of_shares = next(1).front(),
                  .refused = next(1).front() > 0};
  for (const double pass : next(num_ranks_)) all.passes.push_back(static_cast<int64_t>(pass));
  all.failed = any_of(next(num_ranks_));
  return all;
}

}  // namespace tessera::ddp::detail
