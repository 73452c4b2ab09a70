#include "tessera/optim/spikes.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/base/number_text.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::vector<double> parse_numbers(std::string_view text) {
  std::vector<double> numbers;
  for (const std::string_view word : split(text, ' ')) {
    if (word.empty()) continue;
    double number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc{} || end != word.data() + word.size()) {
      throw DataError(
          concat("'", word.substr(0, 40), "' is not a loss or gradient norm of a step"));
    }
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

SpikeDetector::SpikeDetector(const SpikeOptions& options) : options_(options) {
  TSR_CHECK(options.factor == 0 || options.factor > 1,
            "the factor of a spike must be above 1, or 0, but is ", options.factor);
  TSR_CHECK(options.window >= SpikeOptions::kFewest, "the median of spikes needs ≥ ",
            SpikeOptions::kFewest, " steps, but has ", options.window);
}

std::string SpikeDetector::find(double loss, double grad_norm) const {
  if (!is_on() || std::ssize(steps_) < SpikeOptions::kFewest) return "";
  const auto above = [&](std::string_view name, double value, double Step::*member) {
    std::vector<double> values;
    for (const Step& step : steps_) values.push_back(step.*member);
    const double median = median_of(std::move(values));
    if (!(value > options_.factor * median)) return std::string();
    return concat("the ", name, " ", value, " is ", fixed(value / median, 1),
                  " times the median of the last ", steps_.size(), " good steps");
  };
  const std::string norm = above("gradient norm", grad_norm, &Step::grad_norm);
  return norm.empty() ? above("loss", loss, &Step::loss) : norm;
}

void SpikeDetector::add(double loss, double grad_norm) {
  if (!is_on()) return;
  steps_.push_back({loss, grad_norm});
  if (std::ssize(steps_) > options_.window) steps_.pop_front();
}

std::string SpikeDetector::state() const {
  std::string text;
  for (const Step& step : steps_) {
    text += concat(text.empty() ? "" : " ", exact_text(step.loss), " ", exact_text(step.grad_norm));
  }
  return text;
}

void SpikeDetector::restore(std::string_view state) {
  const std::vector<double> numbers = parse_numbers(state);
  if (numbers.size() % 2 != 0) throw DataError("a step of the spike detector has no gradient norm");
  steps_.clear();
  for (size_t i = 0; i < numbers.size(); i += 2) add(numbers[i], numbers[i + 1]);
}

}  // namespace tessera
