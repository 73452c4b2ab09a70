#include "tessera/topology/part.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/topology/runs.h"

namespace tessera {

Part::Part(std::vector<int64_t> shape)
    : shape_(std::move(shape)),
      box_{.shape = shape_, .offset = std::vector<int64_t>(shape_.size(), 0)},
      elements_{0, box_.numel()} {}

Part Part::cut(size_t dim, int64_t pieces, int64_t index) const {
  if (numel() != box_.numel()) throw StateError("a run of elements has no dimensions to cut");
  TSR_CHECK(dim < shape_.size(), "dimension ", dim, " cannot be cut: the tensor has ",
            shape_.size());
  const Span piece = chunk(box_.shape[dim], pieces, index);
  Part part = *this;
  part.box_.shape[dim] = piece.size();
  part.box_.offset[dim] += piece.begin;
  part.elements_ = {0, part.box_.numel()};
  return part;
}

Part Part::run(Span elements) const {
  TSR_CHECK(0 <= elements.begin && elements.begin <= elements.end && elements.end <= numel(),
            "elements ", elements.begin, " to ", elements.end, " of a part that has ", numel());
  Part part = *this;
  part.elements_ = {elements_.begin + elements.begin, elements_.begin + elements.end};
  return part;
}

bool Part::is_whole() const {
  return box_.shape == shape_ && numel() == box_.numel();
}

std::vector<Span> Part::spans() const {
  std::vector<Span> spans;
  int64_t before = 0;  // Elements of the box passed so far.
  for_each_run(shape_, std::span(&box_, 1), [&](Span run) {
    const int64_t begin = std::max(elements_.begin - before, int64_t{0});
    const int64_t end = std::min(elements_.end - before, run.size());
    if (begin < end) spans.push_back({run.begin + begin, run.begin + end});
    before += run.size();
  });
  return spans;
}

std::vector<Part> cut_flat(const std::vector<Part>& parts, int64_t pieces, int64_t index) {
  int64_t total = 0;
  for (const Part& part : parts) total += part.numel();
  const Span piece = chunk(total, pieces, index);
  std::vector<Part> cut;
  int64_t begin = 0;  // Of the part, among all elements.
  for (const Part& part : parts) {
    const auto within = [&](int64_t at) {
      return std::clamp(at - begin, int64_t{0}, part.numel());
    };
    cut.push_back(part.run({within(piece.begin), within(piece.end)}));
    begin += part.numel();
  }
  return cut;
}

}  // namespace tessera
