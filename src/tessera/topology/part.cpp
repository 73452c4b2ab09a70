#include "tessera/topology/part.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/topology/runs.h"

namespace tessera {
namespace {

/// Cuts a run of a box's elements into boxes.
struct RunCutter {
  std::vector<Box>& boxes;

  // `box` is fixed in the dimensions before `dim`; the run counts within it.
  void cut(size_t dim, const Box& box, Span run) const {
    if (run.size() == 0) return;
    int64_t row = 1;  // Elements per index along `dim`.
    for (size_t i = dim + 1; i < box.shape.size(); ++i) row *= box.shape[i];
    const int64_t first = (run.begin + row - 1) / row;  // The whole rows.
    const int64_t last = run.end / row;
    if (first > last) return inside(dim, box, row, last, {run.begin, run.end});
    inside(dim, box, row, first - 1, {run.begin, std::min(first * row, run.end)});
    if (first < last) {
      Box rows = box;
      rows.offset[dim] += first;
      rows.shape[dim] = last - first;
      boxes.push_back(std::move(rows));
    }
    inside(dim, box, row, last, {last * row, run.end});
  }

  // A run that begins and ends in one row.
  void inside(size_t dim, Box box, int64_t row, int64_t index, Span run) const {
    if (run.size() == 0) return;
    box.offset[dim] += index;
    box.shape[dim] = 1;
    cut(dim + 1, box, {run.begin - index * row, run.end - index * row});
  }
};

}  // namespace

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

std::vector<Box> Part::boxes() const {
  if (numel() == 0) return {};
  if (numel() == box_.numel()) return {box_};
  std::vector<Box> boxes;
  RunCutter{boxes}.cut(0, box_, elements_);
  return boxes;
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
