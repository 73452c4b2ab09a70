#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <span>

#include "tessera/base/check.h"
#include "tessera/parallel/pipeline/internal/header.h"

namespace tessera::pipeline::detail {
namespace {

constexpr size_t kFixedWords = 7;
constexpr size_t kWords = kFixedWords + kMostTensors * (3 + kMostDimensions);

/// Writes or reads one word after the other.
class Words {
 public:
  explicit Words(const at::Tensor& tensor) : words_(tensor.data_ptr<int64_t>(), kWords) {}

  void put(int64_t word) { words_[at_++] = word; }
  int64_t take() { return words_[at_++]; }

 private:
  std::span<int64_t> words_;
  size_t at_ = 0;
};

void put(Words& words, const TensorForm& form) {
  words.put(static_cast<int64_t>(form.dtype));
  words.put(form.requires_grad ? 1 : 0);
  words.put(static_cast<int64_t>(form.sizes.size()));
  for (const int64_t size : form.sizes) words.put(size);
}

TensorForm take_form(Words& words) {
  TensorForm form{.dtype = static_cast<at::ScalarType>(words.take()),
                  .requires_grad = words.take() != 0};
  for (int64_t left = words.take(); left > 0; --left) form.sizes.push_back(words.take());
  return form;
}

}  // namespace

void check_forms(const TensorForms& forms) {
  TSR_CHECK(forms.size() <= kMostTensors, "a stage can send at most ", kMostTensors,
            " tensors to the next stage, but has ", forms.size(), "; join some");
  for (const TensorForm& form : forms) {
    TSR_CHECK(form.sizes.size() <= kMostDimensions, "a stage can send tensors of at most ",
              kMostDimensions, " dimensions to the next stage, but one has ", form.sizes.size(),
              "; flatten some");
  }
}

at::Tensor empty_header() {
  return at::empty({static_cast<int64_t>(kWords)}, at::kLong);
}

at::Tensor to_tensor(const Header& header) {
  const at::Tensor tensor = at::zeros({static_cast<int64_t>(kWords)}, at::kLong);
  Words words(tensor);
  const StepFailure failure = header.failure.value_or(StepFailure{});
  words.put(header.call);
  words.put(header.failure ? 1 : 0);
  words.put(failure.rank.value);
  words.put(static_cast<int64_t>(failure.task.type));
  words.put(failure.task.stage);
  words.put(failure.task.microbatch);
  words.put(static_cast<int64_t>(header.forms.size()));
  for (const TensorForm& form : header.forms) put(words, form);
  return tensor;
}

Header to_header(const at::Tensor& tensor) {
  Words words(tensor);
  Header header{.call = words.take()};
  const bool failed = words.take() != 0;
  StepFailure failure{.rank = GroupRank{words.take()}};
  failure.task.type = static_cast<ActionType>(words.take());
  failure.task.stage = static_cast<int32_t>(words.take());
  failure.task.microbatch = static_cast<int32_t>(words.take());
  if (failed) header.failure = failure;
  for (int64_t left = words.take(); left > 0; --left) header.forms.push_back(take_form(words));
  return header;
}

}  // namespace tessera::pipeline::detail
