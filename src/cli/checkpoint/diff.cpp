// `tessera checkpoint diff`: which tensors differ, and by how much.
#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <set>

#include "cli/checkpoint/actions.h"
#include "cli/checkpoint/values.h"
#include "cli/json_text.h"
#include "cli/parse.h"
#include "cli/progress_bar.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "tessera/base/check.h"
#include "tessera/base/terminal_text.h"
#include "tessera/format/checkpoint/checkpoint_folder.h"

namespace tessera::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::string first, second;
  double tolerance = 0;
  bool json = false;
};

/// How the elements of one tensor differ.
struct Difference {
  std::string name;
  std::string words;     // What else differs, e.g. the shape; "" if only values do.
  int64_t elements = 0;  // Different ones.
  int64_t of = 0;
  double largest = 0;   // Absolute.
  double relative = 0;  // Largest difference / largest magnitude.
};

std::vector<std::byte> read(const Checkpoint& from, const std::string& name, const Box& box) {
  std::vector<std::byte> bytes(
      static_cast<size_t>(box.numel() * (bits_of(from.tensor(name).dtype) / 8)));
  from.read(name, box, bytes);
  return bytes;
}

bool is_same(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= tolerance;
}

/// Compares the elements of one block after the other.
class Comparison {
 public:
  Comparison(const Checkpoint& a, const Checkpoint& b, std::string name, double tolerance)
      : a_(a), b_(b), tolerance_(tolerance) {
    result_.name = std::move(name);
  }

  void block(const Box& box) {
    const std::string& name = result_.name;
    const auto first = read(a_, name, box);
    const auto second = read(b_, name, box);
    result_.of += box.numel();
    const bool alike = a_.tensor(name).dtype == b_.tensor(name).dtype;
    if (alike && first == second) return;
    std::vector<double> left, right;
    const bool numbers = append_values(a_.tensor(name).dtype, first, left) &&
                         append_values(b_.tensor(name).dtype, second, right);
    if (!numbers) {
      result_.words = "other bytes";
      return;
    }
    for (size_t i = 0; i < left.size(); ++i) add(left[i], right[i]);
  }

  Difference result() const {
    Difference result = result_;
    result.relative = magnitude_ > 0 ? result.largest / magnitude_ : 0;
    return result;
  }

 private:
  void add(double a, double b) {
    if (std::isfinite(a)) magnitude_ = std::max(magnitude_, std::abs(a));
    if (is_same(a, b, tolerance_)) return;
    ++result_.elements;
    const double distance = std::abs(a - b);
    result_.largest = std::max(result_.largest, std::isnan(distance) ? INFINITY : distance);
  }

  const Checkpoint& a_;
  const Checkpoint& b_;
  double tolerance_;
  double magnitude_ = 0;
  Difference result_ = {};
};

Difference compare(const std::string& name, const Checkpoint& a, const Checkpoint& b,
                   double tolerance, ProgressBar& bar) {
  if (!a.contains(name)) return {.name = name, .words = "only in the second"};
  if (!b.contains(name)) return {.name = name, .words = "only in the first"};
  const CheckpointTensor& first = a.tensor(name);
  const CheckpointTensor& second = b.tensor(name);
  if (first.shape != second.shape) {
    return {.name = name,
            .words = concat("shape [", join(first.shape, ", "), "] and [", join(second.shape, ", "),
                            "]")};
  }
  Comparison comparison(a, b, name, tolerance);
  for_each_block(first, [&](const Box& box) {
    comparison.block(box);
    bar.add(box.numel() * (bits_of(first.dtype) / 8));
  });
  Difference result = comparison.result();
  if (first.dtype != second.dtype) {
    result.words = concat(to_string(first.dtype), " and ", to_string(second.dtype));
  }
  return result;
}

std::vector<Difference> differences(const Checkpoint& a, const Checkpoint& b, double tolerance) {
  std::set<std::string> names;
  for (const Checkpoint* one : {&a, &b}) {
    for (const auto& [name, tensor] : one->index().tensors) names.insert(name);
  }
  ProgressBar bar("comparing", a.index().total_bytes());
  std::vector<Difference> found;
  for (const std::string& name : names) {
    Difference one = compare(name, a, b, tolerance, bar);
    if (one.elements > 0 || !one.words.empty()) found.push_back(std::move(one));
  }
  return found;
}

void write_text(const std::vector<Difference>& found, size_t tensors) {
  if (found.empty()) {
    std::cout << concat("no tensor differs (", tensors, " compared)\n");
    return;
  }
  Table table;
  table.add_column("tensor");
  table.add_column("different", Align::kRight);
  table.add_column("largest", Align::kRight);
  table.add_column("relative", Align::kRight);
  table.add_column("");
  for (const Difference& one : found) {
    const bool values = one.elements > 0;
    table.add_row({one.name, values ? concat(one.elements, " of ", one.of) : "",
                   values ? concat(one.largest) : "", values ? concat(one.relative) : "",
                   one.words});
  }
  std::cout << table.to_string() << found.size() << (found.size() == 1 ? " tensor" : " tensors")
            << " of " << tensors << " differ\n";
}

void write_json(const std::vector<Difference>& found) {
  Json all = Json::array();
  for (const Difference& one : found) {
    all.push_back({{"name", one.name},
                   {"words", one.words},
                   {"different", one.elements},
                   {"elements", one.of},
                   {"largest", one.largest},
                   {"relative", one.relative}});
  }
  data_out() << json_text(Json{{"differences", all}}, 2) << '\n';
}

}  // namespace

int checkpoint_diff(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Says which tensors of two checkpoints differ, and by how much, whatever their layouts. "
      "The exit code is 1 if any does.",
      "tessera checkpoint diff");
  Flags flags;
  app.add_option("first", flags.first, "a checkpoint, or a run directory")->type_name("PATH");
  app.add_option("second", flags.second, "another one")->type_name("PATH");
  app.add_option("--tolerance", flags.tolerance, "ignore differences up to this (0)")
      ->type_name("X");
  app.add_flag("--json", flags.json, "write JSON");
  if (const auto done = parse(app, arguments)) return *done;
  TSR_CHECK(!flags.second.empty(), "two paths are required: tessera checkpoint diff PATH PATH");
  const Checkpoint a(find_checkpoint(flags.first));
  const Checkpoint b(find_checkpoint(flags.second));
  const auto found = differences(a, b, flags.tolerance);
  flags.json ? write_json(found) : write_text(found, a.index().tensors.size());
  return found.empty() ? kOk : kFailed;
}

}  // namespace tessera::cli
