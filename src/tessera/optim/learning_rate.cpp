#include "tessera/optim/learning_rate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "tessera/base/check.h"

namespace tessera {
namespace {

using enum LearningRateKind;

constexpr std::array kKinds{kConstant, kCosine, kLinear, kWsd};

double as_double(int64_t number) {
  return static_cast<double>(number);
}

// The progress of a step between `from` and `to`, 0 to 1.
double progress(int64_t step, int64_t from, int64_t to) {
  return as_double(std::min(step, to) - from) / as_double(to - from);
}

// Interpolates between the final (0) and the peak rate (1); exact at both ends.
double falling(const LearningRate& rate, double share) {
  return std::lerp(rate.final, rate.peak, share);
}

double cosine(const LearningRate& rate, int64_t step) {
  const double done = progress(step, rate.warmup, rate.steps);
  return falling(rate, (1 + std::cos(std::numbers::pi * done)) / 2);
}

double linear(const LearningRate& rate, int64_t step) {
  return falling(rate, 1 - progress(step, rate.warmup, rate.steps));
}

double wsd(const LearningRate& rate, int64_t step) {
  const int64_t stable_end = rate.steps - rate.decay;
  if (step <= stable_end || rate.decay == 0) return rate.peak;
  return falling(rate, 1 - progress(step, stable_end, rate.steps));
}

void check_steps(const LearningRate& rate) {
  TSR_CHECK(rate.warmup >= 0 && rate.decay >= 0, "warm-up and decay must be ≥ 0 steps, but are ",
            rate.warmup, " and ", rate.decay);
  if (rate.kind == kConstant && rate.steps == 0) return;
  TSR_CHECK(rate.steps >= 1, "a ", to_string(rate.kind),
            " learning rate needs a run of ≥ 1 steps, but it has ", rate.steps);
  TSR_CHECK(rate.warmup < rate.steps, "a warm-up of ", rate.warmup,
            " steps does not end in a run of ", rate.steps, "; choose at most ", rate.steps - 1);
  TSR_CHECK(rate.decay <= rate.steps - rate.warmup, "a decay of ", rate.decay,
            " steps does not fit into a run of ", rate.steps, " after a warm-up of ", rate.warmup,
            "; choose at most ", rate.steps - rate.warmup);
}

void check_unused(const LearningRate& rate) {
  TSR_CHECK(rate.kind == kWsd || rate.decay == 0, "a ", to_string(rate.kind),
            " learning rate cannot have a decay of ", rate.decay, " steps; only wsd has one");
  TSR_CHECK(rate.kind != kConstant || rate.final == 0,
            "a constant learning rate cannot have a final rate of ", rate.final,
            "; choose cosine, linear or wsd, or leave `final` out");
}

}  // namespace

std::string_view to_string(LearningRateKind kind) {
  switch (kind) {
    case kConstant:
      return "constant";
    case kCosine:
      return "cosine";
    case kLinear:
      return "linear";
    case kWsd:
      return "wsd";
  }
  return "?";
}

LearningRateKind parse_learning_rate_kind(std::string_view text) {
  const std::string word = to_lower(text);
  for (const LearningRateKind kind : kKinds) {
    if (to_string(kind) == word) return kind;
  }
  const auto names = learning_rate_kind_names();
  throw ConfigError(concat("unknown learning-rate schedule '", text, "'; choose one of ",
                           join(names, ", "), did_you_mean(word, names)));
}

std::vector<std::string> learning_rate_kind_names() {
  std::vector<std::string> names;
  for (const LearningRateKind kind : kKinds) names.emplace_back(to_string(kind));
  return names;
}

double LearningRate::at(int64_t step) const {
  check(*this);
  TSR_CHECK(step >= 0, "the step must be ≥ 0, but is ", step);
  if (step < warmup) return peak * as_double(step + 1) / as_double(warmup + 1);
  switch (kind) {
    case kConstant:
      return peak;
    case kCosine:
      return cosine(*this, step);
    case kLinear:
      return linear(*this, step);
    case kWsd:
      return wsd(*this, step);
  }
  return peak;
}

void check_learning_rate(double rate) {
  TSR_CHECK(std::isfinite(rate) && rate >= 0, "the learning rate must be finite and ≥ 0, but is ",
            rate);
}

void check(const LearningRate& rate) {
  check_learning_rate(rate.peak);
  check_learning_rate(rate.final);
  TSR_CHECK(rate.final <= rate.peak, "the final learning rate ", rate.final,
            " is above the peak rate ", rate.peak, "; choose at most ", rate.peak);
  check_unused(rate);
  check_steps(rate);
}

}  // namespace tessera
