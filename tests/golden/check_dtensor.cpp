// dtensor: redistribution on real ranks, with its gradients.
#include <ATen/ATen.h>

#include "tessera/base/check.h"
#include "tessera/tensor/dtensor.h"
#include "tests/golden/ranked_cases.h"

namespace tessera::golden {
namespace {

using Shape = std::vector<int64_t>;

ReduceOp op_of(const std::string& name) {
  for (const ReduceOp op :
       {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct,
        ReduceOp::kBitAnd, ReduceOp::kBitOr, ReduceOp::kBitXor}) {
    if (name == to_string(op)) return op;
  }
  throw UnknownName("reduction", name);
}

// "R", "S(0)", "SS(0, 2)", "P(sum)".
Placement placement_of(std::string text) {
  std::erase(text, ' ');
  const size_t open = std::min(text.find('('), text.size());
  const std::string kind = text.substr(0, open);
  const std::string inside = text.substr(open, text.find(')') - open);
  const auto numbers = split(std::string_view(inside).substr(inside.empty() ? 0 : 1), ',');
  const auto number = [&](size_t i) {
    const auto value = i < numbers.size() ? to_integer(numbers[i]) : std::nullopt;
    if (!value) throw UnknownName("placement", text);
    return *value;
  };
  if (kind == "R") return Replicate{};
  if (kind == "P") return Partial{op_of(inside.empty() ? "sum" : std::string(numbers[0]))};
  if (kind == "S") return Shard{number(0)};
  if (kind == "SS") return StridedShard{number(0), number(1)};
  throw UnknownName("placement", text);
}

Placements placements_of(const Json& texts) {
  Placements placements;
  for (const std::string text : texts) placements.push_back(placement_of(text));
  return placements;
}

Layout layout_of(const Json& mesh) {
  AxisSizes axes;
  for (const int64_t size : mesh) axes.push_back({concat("m", axes.size()), size});
  return Layout::row_major(axes);
}

// The row-major index of this rank's coordinates on the axes with partial values.
int64_t partial_index(const DeviceMesh& mesh, const Placements& placements) {
  const Shape shape = mesh.shape();
  const Coordinate coordinate = *mesh.get_coordinate();
  int64_t index = 0;
  for (size_t axis = 0; axis < placements.size(); ++axis) {
    if (std::holds_alternative<Partial>(placements[axis])) {
      index = index * shape[axis] + coordinate[axis];
    }
  }
  return index;
}

// The global value at flat index i is i + 1; each term of a partial value has its own hundreds.
at::Tensor source_local(const Json& test_case, const DeviceMesh& mesh, const Placements& from) {
  const Shape shape = test_case.at("shape");
  const at::Tensor whole = at::arange(1, at::empty(shape).numel() + 1, at::kDouble).reshape(shape);
  const DTensor parts =
      distribute_tensor(whole, mesh, gradient_placements(from), {.src_data_rank = std::nullopt});
  return parts.to_local() + 100 * partial_index(mesh, from);
}

Json values_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().contiguous();
  const double* const data = flat.const_data_ptr<double>();
  return {{"shape", tensor.sizes().vec()},
          {"values", Json(std::vector<double>(data, data + flat.numel()))}};
}

Outcome check(const Json& test_case) {
  const Json& expect = test_case.at("expect");
  const Json& answers = test_case.at("answers");
  if (expect.contains("error")) return {Json(answers.size(), refusal()), answers};
  Json expected = Json::array();
  for (size_t rank = 0; rank < expect.at("ranks").size(); ++rank) {
    Json answer{{"placements", expect.at("placements")},
                {"src", expect.at("src").at(rank)},
                {"out", expect.at("ranks").at(rank)}};
    if (expect.contains("grad")) answer["grad"] = expect.at("grad").at(rank);
    expected.push_back(answer);
  }
  return {expected, answers};
}

}  // namespace

Json answer_dtensor(const Json& test_case, World& world) {
  const DeviceMesh mesh(world, layout_of(test_case.at("mesh")));
  const Placements from = placements_of(test_case.at("from"));
  const at::Tensor local = source_local(test_case, mesh, from).requires_grad_();
  const DTensor source =
      DTensor::from_local(local, mesh, from, {.shape = test_case.at("shape").get<Shape>()});
  const DTensor result = source.redistribute(placements_of(test_case.at("to")));
  const Box box = get_local_shape_and_global_offset(source);
  Json answer{{"src", {{"shape", box.shape}, {"offset", box.offset}}},
              {"out", values_of(result.to_local())},
              {"placements", Json::array()}};
  for (const Placement& placement : result.placements()) {
    answer["placements"].push_back(to_string(placement));
  }
  if (value_or(test_case, "grad", false)) {
    result.to_local().backward(result.to_local().detach());
    answer["grad"] = values_of(local.grad());
  }
  return answer;
}

Table dtensor_table() {
  const auto cases = [](const Json& file) {
    const auto world_size = [](const Json& test_case) {
      return layout_of(test_case.at("mesh")).size();
    };
    std::vector<Case> list;
    for (Json& test_case : with_answers("dtensor", file.at("cases"), world_size)) {
      list.push_back({"cases", std::move(test_case)});
    }
    return list;
  };
  return {"dtensor", {{"cases", check}}, cases};
}

}  // namespace tessera::golden
