// Embedding and loss of a vocabulary that is split over real ranks, compared with one process.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tanh.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/layer/linear.h"
#include "tessera/layer/tokens.h"
#include "tessera/parallel/recompute/recompute.h"
#include "tessera/parallel/tensor/head_loss.h"
#include "tests/ranks/tensor_parts.h"
#include "tests/testkit/contains.h"
#include "tests/testkit/ranks.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::contains;
using testkit::here;
using testkit::kTolerance;
using testkit::largest_difference;
using testkit::message_of;
using testkit::Numbers;
using testkit::part_of;
using testkit::run_ranks;
using testkit::Traffic;

// Even parts, or torch.chunk's, which leave the last ranks without rows.
enum class Cut { kEven, kChunks };

VocabularyRows rows_of(int64_t vocab_size, const Group& group, Cut cut) {
  const int64_t size = group.size(), rank = group.rank().value;
  return {cut == Cut::kEven ? tensor_split(vocab_size, size, rank) : chunk(vocab_size, size, rank),
          vocab_size};
}

at::Tensor random_tokens(at::IntArrayRef shape, int64_t vocab_size, Numbers& numbers) {
  return numbers.tensor(shape).add(0.5).mul(static_cast<double>(vocab_size)).to(at::kLong);
}

struct LossCase {
  at::Tensor logits;  // Of the whole vocabulary.
  at::Tensor targets;
  VocabularyLossOptions options = {};
  Cut cut = Cut::kEven;
};

at::Tensor expected_loss(const at::Tensor& logits, const LossCase& given) {
  const at::Tensor wide = logits.element_size() < 4 ? logits.to(at::kFloat) : logits;
  return at::cross_entropy_loss(wide.flatten(0, 1), given.targets.flatten(), {},
                                at::Reduction::Mean, given.options.ignore_index.value_or(-1),
                                given.options.label_smoothing);
}

void check_loss(const LossCase& given, const Group& group, double loss_tolerance,
                double gradient_tolerance) {
  const at::Tensor whole = given.logits.detach().clone().requires_grad_();
  const at::Tensor expected = expected_loss(whole, given);
  (expected * 3).backward();

  const VocabularyRows vocabulary = rows_of(whole.size(2), group, given.cut);
  const at::Tensor own = part_of(given.logits, 2, vocabulary.rows);
  const at::Tensor before = own.detach().clone();
  const TensorParallel tensor{group};
  const at::Tensor loss =
      vocabulary_loss(own, given.targets, vocabulary, {.tensor = &tensor}, given.options);
  RANK_EXPECT(loss.scalar_type() == expected.scalar_type());
  RANK_EXPECT(largest_difference(loss.detach(), expected.detach()) < loss_tolerance)
      << loss.item<double>() << " instead of " << expected.item<double>();
  const Traffic backward(group);
  (loss * 3).backward();
  RANK_EXPECT(backward.operations().empty()) << backward.operations();
  RANK_EXPECT(own.detach().equal(before)) << "the logits have changed";
  const at::Tensor gradient = whole.grad().narrow(2, vocabulary.rows.begin, vocabulary.rows.size());
  RANK_EXPECT(own.grad().scalar_type() == own.scalar_type());
  RANK_EXPECT(largest_difference(own.grad(), gradient) < gradient_tolerance)
      << largest_difference(own.grad(), gradient);
}

const std::vector<VocabularyLossOptions>& all_options() {
  static const std::vector<VocabularyLossOptions> options{
      {},
      {.ignore_index = -100},
      {.ignore_index = 0},
      {.label_smoothing = 0.1},
      {.ignore_index = -100, .label_smoothing = 0.3},
      {.label_smoothing = 1},
  };
  return options;
}

void check_losses(const World& world) {
  Numbers numbers(1);
  for (const int64_t vocab_size : {1, 5, 29}) {
    for (const VocabularyLossOptions& options : all_options()) {
      for (const Cut cut : {Cut::kEven, Cut::kChunks}) {
        const testing::ScopedTrace trace(
            __FILE__, __LINE__,
            concat("vocabulary ", vocab_size, ", smoothing ", options.label_smoothing));
        at::Tensor targets = random_tokens({2, 7}, vocab_size, numbers);
        if (options.ignore_index) targets[1][2] = targets[0][0] = *options.ignore_index;
        // One position that counts for certain: without any the loss is NaN.
        targets[0][1] = vocab_size - 1;
        if (options.ignore_index == 0 && vocab_size == 1) continue;
        const at::Tensor logits = numbers.tensor({2, 7, vocab_size}).mul(20);
        check_loss({logits, targets, options, cut}, world.group(), kTolerance, kTolerance);
      }
    }
  }
}

void check_dtypes(const World& world) {
  Numbers numbers(2);
  const at::Tensor targets = random_tokens({2, 5}, 11, numbers);
  const at::Tensor logits = numbers.tensor({2, 5, 11}).mul(10);
  for (const VocabularyLossOptions& options : all_options()) {
    const auto check = [&](at::ScalarType dtype, double gradient_tolerance) {
      check_loss({logits.to(dtype), targets, options}, world.group(), 1e-5, gradient_tolerance);
    };
    check(at::kFloat, 1e-6);
    check(at::kBFloat16, 4e-3);
    check(at::kHalf, 1e-3);
  }
  // Exponentials of large logits would overflow.
  check_loss({logits.mul(1e4), targets}, world.group(), 1e-7, kTolerance);
}

void check_no_target_counts(const World& world) {
  const TensorParallel tensor{world.group()};
  const VocabularyRows vocabulary = rows_of(5, world.group(), Cut::kEven);
  const at::Tensor logits = at::full({1, 2, vocabulary.rows.size()}, 1, here(at::kDouble));
  const at::Tensor targets = at::full({1, 2}, -100, here(at::kLong));
  const at::Tensor loss =
      vocabulary_loss(logits, targets, vocabulary, {.tensor = &tensor}, {.ignore_index = -100});
  RANK_EXPECT(std::isnan(loss.item<double>()));
}

// Embedding, a recomputed block and a head over the same vocabulary, tied or not.
struct Language {
  Language(const Group& group, int64_t vocab_size, Cut cut, bool sequence, Recompute what)
      : vocabulary(rows_of(vocab_size, group, cut)),
        tensor{group, sequence},
        what(what),
        tokens(random_tokens({2, 2 * group.size()}, vocab_size, numbers)),
        targets(random_tokens({2, 2 * group.size()}, vocab_size, numbers)),
        embedding(numbers.leaf({vocab_size, 6})),
        head(numbers.leaf({vocab_size, 6})) {}

  at::Tensor expected(bool tied) const {
    const at::Tensor hidden = at::tanh(embed(tokens, embedding));
    return token_loss(tessera::linear(hidden, tied ? embedding : head), targets);
  }

  // The logits of 1 byte at a time are those of one position.
  at::Tensor made(const at::Tensor& own_embedding, const at::Tensor& own_head,
                  int64_t piece_bytes) const {
    const Unit unit{.name = "embedding", .forward = [&](const at::Tensor& ids, const Pass& pass) {
                      return at::tanh(vocabulary_embed(ids, own_embedding, vocabulary, pass));
                    }};
    const Pass pass{.tensor = &tensor};
    const at::Tensor hidden = recompute(unit, what).forward(tokens, pass);
    const HeadLossOptions options{.piece_bytes = piece_bytes};
    return head_loss(hidden, own_head, targets, vocabulary, pass, options);
  }

  Numbers numbers = Numbers(3);
  VocabularyRows vocabulary;
  TensorParallel tensor;
  Recompute what;
  at::Tensor tokens, targets;
  at::Tensor embedding, head;
};

void expect_rows(const at::Tensor& own, const at::Tensor& whole, const Span& rows,
                 const std::string& what) {
  const at::Tensor expected = whole.grad().narrow(0, rows.begin, rows.size());
  RANK_EXPECT(own.grad().defined() && largest_difference(own.grad(), expected) < kTolerance)
      << what;
}

void check_language(const Language& language, bool tied, int64_t piece_bytes) {
  const at::Tensor expected = language.expected(tied);
  expected.backward();
  const Span& rows = language.vocabulary.rows;
  const at::Tensor embedding = part_of(language.embedding, 0, rows);
  const at::Tensor head = tied ? embedding : part_of(language.head, 0, rows);
  const at::Tensor loss = language.made(embedding, head, piece_bytes);
  loss.backward();
  RANK_EXPECT(largest_difference(loss.detach(), expected.detach()) < kTolerance);
  expect_rows(embedding, language.embedding, rows, "embedding");
  if (!tied) expect_rows(head, language.head, rows, "head");
}

void check_languages(const World& world) {
  for (const int64_t vocab_size : {2, 7}) {
    for (const Cut cut : {Cut::kEven, Cut::kChunks}) {
      for (const bool sequence : {false, true}) {
        for (const bool tied : {false, true}) {
          for (const Recompute what : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
            for (const int64_t piece_bytes : {int64_t{1}, int64_t{1} << 30}) {
              check_language(Language(world.group(), vocab_size, cut, sequence, what), tied,
                             piece_bytes);
            }
          }
        }
      }
    }
  }
}

// The loss sends 3 numbers per position, of which one is the largest logit.
void check_traffic(const World& world) {
  const Language language(world.group(), 7, Cut::kEven, true, Recompute::kSelective);
  const at::Tensor own = part_of(language.embedding, 0, language.vocabulary.rows);
  const Pass pass{.tensor = &language.tensor};
  const Traffic embedding(world.group());
  vocabulary_embed(language.tokens, own, language.vocabulary, pass).sum().backward();
  RANK_EXPECT(embedding.operations() == "reduce_scatter all_gather") << embedding.operations();

  Numbers numbers(5);
  const at::Tensor logits = numbers.tensor({2, 3, language.vocabulary.rows.size()});
  const at::Tensor targets = random_tokens({2, 3}, 7, numbers);
  const Traffic loss(world.group());
  vocabulary_loss(logits, targets, language.vocabulary, pass);
  RANK_EXPECT(loss.operations() == "all_reduce all_reduce") << loss.operations();
  const auto size = static_cast<double>(world.size());
  const double formula = 2 * (size - 1) / size * 3 * 8 * 6;  // 6 positions in float64.
  RANK_EXPECT(std::abs(loss.bytes() - formula) < 1e-6) << loss.bytes() << " " << formula;
}

// In pieces, with a scale, ignored targets, uneven pieces and frozen operands, without other ranks.
void check_head_loss(const World& world) {
  const TensorParallel alone{world.group({world.rank()})};
  const Pass pass{.tensor = &alone};
  Numbers numbers(11);
  const at::Tensor x = numbers.leaf({2, 5, 4}), weight = numbers.leaf({9, 4});
  at::Tensor targets = random_tokens({2, 5}, 9, numbers);
  targets[1][3] = -100;
  const VocabularyRows all{{0, 9}, 9};
  HeadLossOptions options{.loss = {.ignore_index = -100, .count_ignored = true}};
  const auto results = [&](int64_t piece_bytes) {
    options.piece_bytes = piece_bytes;
    for (const at::Tensor& leaf : {x, weight}) leaf.mutable_grad() = at::Tensor();
    const at::Tensor loss = head_loss(x, weight, targets, all, pass, options);
    (loss * 3).backward();
    return std::vector{loss.detach(), x.grad(), weight.grad()};
  };
  const auto whole = results(1 << 20);
  for (const int64_t positions : {1, 2, 4}) {
    const auto got = results(positions * 2 * 9 * 8);
    for (size_t i = 0; i < got.size(); ++i) {
      RANK_EXPECT(largest_difference(got[i], whole[i]) < kTolerance) << positions << ", " << i;
    }
  }
  options.piece_bytes = 1;
  const at::Tensor of_weight = head_loss(x.detach(), weight, targets, all, pass, options);
  weight.mutable_grad() = at::Tensor();
  (of_weight * 3).backward();
  RANK_EXPECT(largest_difference(weight.grad(), whole[2]) < kTolerance);
  const at::Tensor frozen = head_loss(x.detach(), weight.detach(), targets, all, pass, options);
  RANK_EXPECT(!frozen.requires_grad() && largest_difference(frozen, whole[0]) < kTolerance);
  options.loss.count_ignored = false;
  const std::string message =
      message_of<ConfigError>([&] { head_loss(x, weight, targets, all, pass, options); });
  RANK_EXPECT(contains(message, "set count_ignored")) << message;
}

void check_group_of_one(const World& world) {
  const TensorParallel alone{world.group({world.rank()})};
  Numbers numbers(7);
  const at::Tensor weight = numbers.leaf({5, 4}), logits = numbers.tensor({2, 3, 5}).to(at::kFloat);
  const at::Tensor tokens = random_tokens({2, 3}, 5, numbers);
  const VocabularyRows all{{0, 5}, 5};
  for (const TensorParallel* const tensor : {static_cast<const TensorParallel*>(nullptr), &alone}) {
    const Pass pass{.tensor = tensor};
    RANK_EXPECT(vocabulary_embed(tokens, weight, all, pass).equal(embed(tokens, weight)));
    RANK_EXPECT(vocabulary_loss(logits, tokens, all, pass).equal(token_loss(logits, tokens)));
    const VocabularyLossOptions options{.ignore_index = 2, .label_smoothing = 0.1};
    RANK_EXPECT(vocabulary_loss(logits, tokens, all, pass, options)
                    .equal(expected_loss(logits, {logits, tokens, options})));
  }
}

void check_refusals(const World& world) {
  const TensorParallel tensor{world.group()};
  const Pass pass{.tensor = &tensor};
  Numbers numbers(9);
  const int64_t positions = world.size();
  const VocabularyRows vocabulary = rows_of(10, world.group(), Cut::kEven);
  const at::Tensor weight = numbers.leaf({vocabulary.rows.size(), 4});
  const at::Tensor logits = numbers.tensor({1, positions, vocabulary.rows.size()});
  for (const int64_t id : {-1, 10, -100}) {
    if (!testkit::device().is_cpu()) continue;  // Ids on a GPU are not checked.
    at::Tensor tokens = random_tokens({1, positions}, 10, numbers);
    tokens[0][1] = id;
    const std::string message =
        message_of<ConfigError>([&] { vocabulary_embed(tokens, weight, vocabulary, pass); });
    RANK_EXPECT(contains(message, concat("token id ", id, " at [0, 1]")) &&
                contains(message, "vocabulary of 10"))
        << message;
    const std::string again = message_of<ConfigError>(
        [&] { vocabulary_loss(logits, tokens, vocabulary, pass, {.ignore_index = -5}); });
    RANK_EXPECT(again == message) << again;
  }
  const at::Tensor tokens = random_tokens({1, positions + 1}, 10, numbers);
  message_of<ConfigError>([&] { vocabulary_embed(tokens, weight, vocabulary, pass); });
  message_of<ConfigError>([&] { vocabulary_loss(logits, tokens, vocabulary, pass); });
  const at::Tensor targets = random_tokens({1, positions}, 10, numbers);
  message_of<ConfigError>(
      [&] { vocabulary_loss(logits, targets, vocabulary, pass, {.label_smoothing = 1.5}); });
  const VocabularyRows wrong{{vocabulary.rows.begin, vocabulary.rows.end + 1}, 20};
  message_of<ConfigError>([&] { vocabulary_embed(targets, weight, wrong, pass); });
  message_of<ConfigError>([&] { vocabulary_loss(logits, targets, wrong, pass); });
}

void check_all(const World& world) {
  check_losses(world);
  check_dtypes(world);
  check_no_target_counts(world);
  check_languages(world);
  check_traffic(world);
  check_head_loss(world);
  check_group_of_one(world);
  check_refusals(world);
}

TEST(TensorVocabulary, EqualsOneProcessOn2Ranks) {
  run_ranks(2, check_all);
}
TEST(TensorVocabulary, EqualsOneProcessOn3Ranks) {
  run_ranks(3, check_all);
}
TEST(TensorVocabulary, EqualsOneProcessOn4Ranks) {
  run_ranks(4, check_all);
}
TEST(TensorVocabulary, EqualsOneProcessOn8Ranks) {
  run_ranks(8, check_all);
}

}  // namespace
}  // namespace tessera
