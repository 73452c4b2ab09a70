// The tensors of tensor_parallel: equal pieces of the last dimension and of all elements.
#include <ATen/ATen.h>

#include <algorithm>

#include "tessera/comm/world.h"
#include "tessera/dialect/megatron/tensor_parallel.h"
#include "tests/golden/golden.h"
#include "tests/golden/rules.h"

namespace tessera::golden {
namespace {

// A tensor of this shape with the values 0, 1, 2, …
at::Tensor numbered(const Json& shape) {
  const auto sizes = shape.get<std::vector<int64_t>>();
  return at::arange(at::empty(sizes, at::kMeta).numel(), at::kLong).view(sizes);
}

// Rising numbers as [first, count].
Json runs_of(const at::Tensor& numbers) {
  const at::Tensor flat = numbers.contiguous();
  const int64_t* const data = flat.const_data_ptr<int64_t>();
  Json runs = Json::array();
  for (int64_t i = 0; i < flat.numel(); ++i) {
    if (i > 0 && data[i] == data[i - 1] + 1) {
      runs.back()[1] = runs.back()[1].get<int64_t>() + 1;
    } else {
      runs.push_back({data[i], 1});
    }
  }
  return runs;
}

Json parts_of_last_dim(const Json& c) {
  Json answer{{"shapes", Json::array()}, {"first_row", Json::array()}};
  answer["contiguous"] = Json::array();
  for (const at::Tensor& part : megatron::split_tensor_along_last_dim(
           numbered(c.at("shape")), c.at("parts"), value_or(c, "contiguous", false))) {
    const at::Tensor flat = part.reshape(-1);
    const int64_t row = std::min(part.size(-1), flat.numel());
    answer["shapes"].push_back(part.sizes().vec());
    answer["first_row"].push_back(runs_of(flat.narrow(0, 0, row)));
    answer["contiguous"].push_back(part.is_contiguous());
  }
  return answer;
}

Outcome check_last_dim(const Json& c) {
  const Json& shape = c.at("shape");
  const bool empty = !shape.empty() && shape.back() == 0;
  return judge(
      errors_as_refusals(c.at("expect")), [&] { return parts_of_last_dim(c); },
      empty ? &rules::kEmptyLastDimension : nullptr);
}

Json flat_chunks(const at::Tensor& tensor, int64_t tp) {
  Json ranks = Json::array();
  for (int64_t rank = 0; rank < std::max(tp, int64_t{1}); ++rank) {
    const World world = World::fake(GlobalRank{rank}, tp);
    const at::Tensor chunk =
        megatron::split_tensor_into_1d_equal_chunks(tensor, false, world.group());
    ranks.push_back(runs_of(chunk));
  }
  return {{"ranks", ranks}};
}

Outcome check_flat(const Json& c) {
  const at::Tensor tensor = numbered(c.at("shape"));
  const int64_t tp = c.at("tp");
  const Rule* rule = rules::of_size(tp);
  if (rule == nullptr && tensor.numel() % tp != 0) rule = &rules::kFlatRemainder;
  return judge(errors_as_refusals(c.at("expect")), [&] { return flat_chunks(tensor, tp); }, rule);
}

}  // namespace

Check tensor_splits_check() {
  return [](const Json& test_case) {
    return test_case.at("kind") == "split_flat" ? check_flat(test_case) : check_last_dim(test_case);
  };
}

}  // namespace tessera::golden
