// olmo_step: real steps of OLMo-core's PipelineSchedule on real ranks: outputs, losses, gradients.
#include <ATen/ATen.h>

#include <cmath>

#include "tessera/base/check.h"
#include "tessera/dialect/olmo/parallel.h"
#include "tessera/schedule/generate.h"
#include "tests/golden/ranked_cases.h"
#include "tests/golden/rules.h"

namespace tessera::golden {
namespace {

constexpr int64_t kWidth = 3;
constexpr double kTolerance = 1e-12;  // The peer sums and divides in another order.

// ---- The table's model

using Formula = std::function<double(int64_t row, int64_t column)>;

at::Tensor matrix(int64_t rows, const Formula& value) {
  at::Tensor result = at::empty({rows, kWidth}, at::kDouble);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < kWidth; ++j) result[i][j] = value(i, j);
  }
  return result;
}

double cycled(int64_t value, int64_t period, int64_t shift, double divisor) {
  return static_cast<double>(value % period - shift) / divisor;
}

struct Layer {
  at::Tensor weight;
  at::Tensor bias;

  explicit Layer(int64_t stage)
      : weight(matrix(kWidth,
                      [&](auto i, auto j) { return cycled(7 * i + 3 * j + 5 * stage, 11, 5, 10); })
                   .requires_grad_()),
        bias(matrix(1, [&](auto, auto i) { return cycled(i + stage, 5, 2, 10); })[0]
                 .clone()
                 .requires_grad_()) {}

  at::Tensor forward(const at::Tensor& x, const Keywords& keywords) const {
    at::Tensor h = at::tanh(at::linear(x, weight, bias));
    if (keywords.contains("scale")) {
      h = h * std::get<at::Tensor>(keywords.at("scale")).unsqueeze(1);
    }
    return keywords.contains("factor") ? h * std::get<double>(keywords.at("factor")) : h;
  }
};

at::Tensor inputs(int64_t batch) {
  return matrix(batch, [](auto b, auto d) { return cycled(3 * b + d, 7, 3, 4); });
}
at::Tensor targets(int64_t batch) {
  return matrix(batch, [](auto b, auto d) { return cycled(b + d, 3, 1, 2); });
}

Keywords keywords_of(const Json& test_case) {
  Keywords keywords;
  if (value_or(test_case, "scale", false)) {
    keywords["scale"] = 1 + at::arange(test_case.at("batch").get<int64_t>(), at::kDouble) / 8;
  }
  const Json factor = value_or(test_case, "factor", nullptr);
  if (!factor.is_null()) keywords["factor"] = factor.get<double>();
  return keywords;
}

bool has_loss(const Json& test_case) {
  return value_or(test_case, "loss", true);
}

int64_t steps_of(const Json& test_case) {
  return value_or(test_case, "steps", 1);
}

std::optional<int64_t> given_microbatches(const Json& test_case) {
  const Json given = value_or(test_case, "num_microbatches", nullptr);
  return given.is_null() ? std::nullopt : std::optional<int64_t>(given);
}

int64_t microbatches_of(const Json& test_case) {
  return given_microbatches(test_case).value_or(test_case.at("degree").get<int64_t>());
}

// ---- Answers

Json rows_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  if (tensor.dim() == 0) return tensor.item<double>();
  Json rows = Json::array();
  for (int64_t i = 0; i < tensor.size(0); ++i) rows.push_back(rows_of(tensor.detach()[i]));
  return rows;
}

Json gradients_of(const Layer& layer) {
  if (!layer.weight.grad().defined()) return nullptr;
  return {{"weight", rows_of(layer.weight.grad())}, {"bias", rows_of(layer.bias.grad())}};
}

using Layers = std::map<int64_t, Layer>;

Layers layers_of(const Json& test_case, int64_t rank) {
  const int64_t pp = test_case.at("degree");
  const auto kind = parse_schedule_kind(test_case.at("schedule").get<std::string>());
  const auto ranks = place_stages(placement_of(kind), pp, test_case.at("num_stages"));
  Layers layers;
  for (int64_t stage = 0; stage < test_case.at("num_stages"); ++stage) {
    if (ranks[static_cast<size_t>(stage)] == rank) layers.emplace(stage, stage);
  }
  return layers;
}

std::vector<Stage> stages_of(const Layers& layers) {
  std::vector<Stage> stages;
  for (const auto& [index, layer] : layers) {
    stages.push_back({.index = index, .forward = [layer](const Tensors& x, const StagePass& pass) {
                        return Tensors{layer.forward(x.at(0), *pass.keywords)};
                      }});
  }
  return stages;
}

PipelineLoss loss_of(const Json& test_case) {
  if (!has_loss(test_case)) return {};
  return [](const Tensors& outputs, const at::Tensor& target) {
    return at::mse_loss(outputs.at(0), target);
  };
}

// ---- What one process computes: the reference where the peer fails

at::Tensor losses_of(const at::Tensor& output, const at::Tensor& target, int64_t microbatches) {
  const auto outputs = output.tensor_split(microbatches);
  const auto pieces = target.tensor_split(microbatches);
  Tensors losses;
  for (size_t i = 0; i < pieces.size(); ++i) losses.push_back(at::mse_loss(outputs[i], pieces[i]));
  return at::stack(losses);
}

Json one_process(const Json& test_case) {
  const int64_t batch = test_case.at("batch");
  const int64_t pp = test_case.at("degree");
  Layers all;
  std::vector<Layers> ranks;
  for (int64_t rank = 0; rank < pp; ++rank) {
    ranks.push_back(layers_of(test_case, rank));
    all.insert(ranks.back().begin(), ranks.back().end());
  }
  Json answers(static_cast<size_t>(pp), Json::array());
  for (int64_t step = 0; step < steps_of(test_case); ++step) {
    at::Tensor output = inputs(batch);
    for (const auto& [index, layer] : all) output = layer.forward(output, keywords_of(test_case));
    if (has_loss(test_case)) at::mse_loss(output, targets(batch)).backward();
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const bool last = ranks[rank].contains(test_case.at("num_stages").get<int64_t>() - 1);
      Json answer{{"output", last ? rows_of(output) : Json()}, {"losses", nullptr}};
      if (last && has_loss(test_case)) {
        answer["losses"] = rows_of(losses_of(output, targets(batch), microbatches_of(test_case)));
      }
      for (const auto& [index, layer] : ranks[rank]) {
        answer["grads"][std::to_string(index)] = gradients_of(layer);
      }
      answers[rank].push_back(answer);
    }
  }
  return answers;
}

// ---- Comparison

bool is_near(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) {
    return std::abs(a.get<double>() - b.get<double>()) <= kTolerance;
  }
  if (!a.is_structured() || a.type() != b.type() || a.size() != b.size()) return a == b;
  if (a.is_object()) {
    return std::ranges::all_of(a.items(), [&](const auto& entry) {
      return b.contains(entry.key()) && is_near(entry.value(), b.at(entry.key()));
    });
  }
  return std::ranges::equal(a, b, is_near);
}

Outcome near(const Json& expected, const Json& got, const Rule* rule = nullptr) {
  return {expected, is_near(expected, got) ? expected : got, rule};
}

Json refused_by_all(const Json& test_case) {
  return Json(test_case.at("degree").get<size_t>(), refusal());
}

// The peer's answer, where from the second step on the gradients are those of one process.
Json with_sums_of_gradients(const Json& test_case) {
  const Json sums = one_process(test_case);
  Json expected = test_case.at("result");
  for (size_t rank = 0; rank < expected.size(); ++rank) {
    for (size_t step = 1; step < expected[rank].size(); ++step) {
      expected[rank][step]["grads"] = sums.at(rank).at(step).at("grads");
    }
  }
  return expected;
}

Outcome check(const Json& test_case) {
  const Json& got = test_case.at("answers");
  const Json& result = test_case.at("result");
  const int64_t batch = test_case.at("batch");
  const int64_t microbatches = microbatches_of(test_case);
  if (batch >= microbatches && batch % microbatches != 0) {
    return near(one_process(test_case), got, &rules::kUnevenMicrobatches);
  }
  if (errors_as_refusals(result) != result) return {refused_by_all(test_case), got};
  if (steps_of(test_case) > 1 && has_loss(test_case)) {
    return near(with_sums_of_gradients(test_case), got, &rules::kGradientsScaledTwice);
  }
  return near(result, got);
}

}  // namespace

Json answer_olmo_step(const Json& test_case, World& world) {
  const int64_t batch = test_case.at("batch");
  const DeviceMesh mesh(world, Layout::row_major({{"pp", world.size()}}));
  const Layers layers = layers_of(test_case, world.rank().value);
  olmo::PipelineSchedule schedule(
      {}, stages_of(layers), mesh,
      olmo::from_string<olmo::PipelineScheduleType>(test_case.at("schedule").get<std::string>()),
      loss_of(test_case), given_microbatches(test_case));
  const bool everywhere = value_or(test_case, "args_everywhere", false);
  const bool with_args = schedule.has_first_stage() || everywhere;
  Json answers = Json::array();
  for (int64_t step = 0; step < steps_of(test_case); ++step) {
    const auto [outputs, losses] = schedule.step(with_args ? Tensors{inputs(batch)} : Tensors(),
                                                 targets(batch), keywords_of(test_case));
    const at::Tensor output = outputs.empty() ? at::Tensor() : outputs.at(0);
    Json answer{{"output", rows_of(output)}, {"losses", rows_of(losses)}};
    for (const auto& [index, layer] : layers) {
      answer["grads"][std::to_string(index)] = gradients_of(layer);
    }
    answers.push_back(answer);
  }
  return answers;
}

Table olmo_step_table() {
  const auto cases = [](const Json& file) {
    const auto world_size = [](const Json& test_case) {
      return test_case.at("degree").get<int64_t>();
    };
    std::vector<Case> list;
    for (Json& test_case : with_answers("olmo_step", file.at("cases"), world_size)) {
      list.push_back({"cases", std::move(test_case)});
    }
    return list;
  };
  return {"olmo_step", {{"cases", check}}, cases};
}

}  // namespace tessera::golden
