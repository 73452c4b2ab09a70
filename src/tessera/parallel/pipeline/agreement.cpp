#include "tessera/parallel/pipeline/internal/agreement.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <optional>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"
#include "tessera/parallel/pipeline/internal/tensor_form.h"

namespace tessera::pipeline::detail {
namespace {

constexpr size_t kWords = 9;
using Words = std::array<int64_t, kWords>;

// FNV-1a, word by word.
constexpr uint64_t kDigestStart = 14695981039346656037ULL;

uint64_t digest(uint64_t state, uint64_t word) {
  return (state ^ word) * 1099511628211ULL;
}

uint64_t digest(uint64_t state, const TensorForms& forms) {
  for (const TensorForm& form : forms) {
    state = digest(state, static_cast<uint64_t>(form.dtype));
    state = digest(state, form.requires_grad ? 1 : 2);
    for (const int64_t size : form.sizes) state = digest(state, static_cast<uint64_t>(size));
  }
  return digest(state, forms.size());
}

int64_t rows_of(const at::Tensor& tensor, const std::string& what) {
  TSR_CHECK(tensor.defined(), what, " is undefined; pass a tensor");
  TSR_CHECK(tensor.dim() > 0, what, " has no dimension to split into microbatches");
  return tensor.size(0);
}

// The number of rows, which must be equal for all tensors; -1 if there are none.
int64_t common_rows(const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  int64_t rows = -1;
  for (const auto& [what, tensor] : tensors) {
    const int64_t own = rows_of(tensor, what);
    TSR_CHECK(rows == -1 || own == rows, what, " has ", own, " rows, but ", tensors.front().first,
              " has ", rows, "; the rows must be equal");
    rows = own;
  }
  return rows;
}

std::vector<std::pair<std::string, at::Tensor>> tensors_in(const Keywords& keywords) {
  std::vector<std::pair<std::string, at::Tensor>> found;
  for (const auto& [name, value] : keywords) {
    const auto* const tensor = std::get_if<at::Tensor>(&value);
    if (tensor != nullptr) found.emplace_back(concat("keyword '", name, "'"), *tensor);
  }
  return found;
}

std::vector<std::pair<std::string, at::Tensor>> named(const Tensors& inputs) {
  std::vector<std::pair<std::string, at::Tensor>> found;
  for (const at::Tensor& input : inputs) {
    found.emplace_back(concat("input ", found.size()), input);
  }
  return found;
}

Words to_words(const StepTerms& terms, bool refused) {
  return {terms.call,
          static_cast<int64_t>(terms.kind),
          terms.step,
          terms.input_rows,
          terms.target_rows,
          terms.keyword_rows,
          static_cast<int64_t>(terms.shapes),
          terms.failed_before ? 1 : 0,
          refused ? 1 : 0};
}

StepTerms to_terms(const Words& words) {
  return {.call = words[0],
          .kind = static_cast<StepKind>(words[1]),
          .step = words[2],
          .input_rows = words[3],
          .target_rows = words[4],
          .keyword_rows = words[5],
          .shapes = static_cast<uint64_t>(words[6]),
          .failed_before = words[7] != 0};
}

// In the memory of the host, which should not wait here for a GPU that is busy with the last step.
std::vector<Words> gather(const Words& mine, const Group& group) {
  const at::Tensor row = at::empty({static_cast<int64_t>(kWords)}, at::kLong);
  std::copy(mine.begin(), mine.end(), row.data_ptr<int64_t>());
  const at::Tensor all = all_gather(row, group).wait();
  const int64_t* const data = all.const_data_ptr<int64_t>();
  std::vector<Words> gathered(static_cast<size_t>(group.size()));
  for (size_t rank = 0; rank < gathered.size(); ++rank) {
    std::copy_n(data + rank * kWords, kWords, gathered[rank].begin());
  }
  return gathered;
}

std::string describe(const StepTerms& terms) {
  return concat(terms.kind == StepKind::kTraining ? "a step" : "an evaluation", ", its call ",
                terms.call, terms.step < 0 ? "" : concat(", step ", terms.step, " of the run"));
}

void check_same_step(const std::vector<StepTerms>& ranks, const Group& group) {
  const StepTerms& first = ranks.front();
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    const StepTerms& other = ranks[rank];
    if (other.call == first.call && other.kind == first.kind && other.step == first.step) continue;
    throw CommError(concat("the ranks of group ", group.name(),
                           " are not in the same step: rank 0 begins ", describe(first), ", rank ",
                           rank, " ", describe(other), "; every rank must run every step"));
  }
}

void check_rows(int64_t rows, int64_t expected, const char* what, size_t rank) {
  TSR_CHECK(rows < 0 || rows == expected, what, " of rank ", rank, " have ", rows,
            " rows, but the inputs have ", expected, "; the rows must be equal");
}

int64_t agreed_rows(const std::vector<StepTerms>& ranks, int64_t microbatches) {
  int64_t rows = -1;
  for (const StepTerms& terms : ranks) rows = std::max(rows, terms.input_rows);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    check_rows(ranks[rank].target_rows, rows, "the targets", rank);
    check_rows(ranks[rank].keyword_rows, rows, "the keywords", rank);
  }
  TSR_CHECK(rows >= microbatches, "a batch of ", rows, " rows cannot be split into ", microbatches,
            " microbatches; pass at least one row per microbatch, or choose fewer microbatches");
  return rows;
}

}  // namespace

StepTerms terms_of(const PipelineBatch& batch, bool has_first_stage, bool has_last_stage) {
  StepTerms terms{.step = batch.step};
  terms.shapes = digest(kDigestStart, TensorForms());
  if (has_first_stage) {
    TSR_CHECK(!batch.inputs.empty(),
              "this rank has the first stage but no inputs; set PipelineBatch::inputs");
    terms.input_rows = common_rows(named(batch.inputs));
    terms.shapes = digest(terms.shapes, forms_of(batch.inputs, true));
  }
  if (has_last_stage && batch.target.defined()) {
    terms.target_rows = rows_of(batch.target, "the target");
  }
  const auto keywords = tensors_in(batch.keywords);
  terms.keyword_rows = common_rows(keywords);
  for (const auto& [what, tensor] : keywords) {
    terms.shapes = digest(terms.shapes, forms_of({tensor}, true));
  }
  return terms;
}

AgreedStep agree_on_step(const Group& group, int64_t microbatches,
                         const std::function<StepTerms()>& terms) {
  StepTerms mine;
  std::exception_ptr error;
  try {
    mine = terms();
  } catch (...) {
    error = std::current_exception();
  }
  std::vector<StepTerms> ranks;
  std::vector<size_t> refusing;
  for (const Words& words : gather(to_words(mine, error != nullptr), group)) {
    if (words.back() != 0) refusing.push_back(ranks.size());
    ranks.push_back(to_terms(words));
  }
  if (error) std::rethrow_exception(error);
  TSR_CHECK(refusing.empty(), "rank ", join(refusing, ", "), " of group ", group.name(),
            " refused the step; see the error of that rank");
  check_same_step(ranks, group);
  AgreedStep agreed{.rows = agreed_rows(ranks, microbatches), .shapes = kDigestStart};
  for (const StepTerms& terms_of_rank : ranks) {
    agreed.shapes = digest(agreed.shapes, terms_of_rank.shapes);
    agreed.failed_before = agreed.failed_before || terms_of_rank.failed_before;
  }
  agreed.shapes = digest(agreed.shapes, static_cast<uint64_t>(mine.kind));
  return agreed;
}

}  // namespace tessera::pipeline::detail
