#include "tessera/topology/rank_text.h"

#include <vector>

#include "tessera/base/text.h"

namespace tessera {
namespace {

constexpr size_t kMostItems = 4;
constexpr size_t kFirstItems = 3;  // Shown before the dots.

// Where the consecutive run that begins at `begin` ends; a run of two is no run.
size_t run_end(const RankGroup& ranks, size_t begin) {
  size_t end = begin + 1;
  while (end < ranks.size() && ranks[end].value == ranks[end - 1].value + 1) ++end;
  return end - begin > 2 ? end : begin + 1;
}

std::string item(const RankGroup& ranks, size_t begin, size_t end) {
  return end - begin > 1 ? concat(ranks[begin], "-", ranks[end - 1]) : concat(ranks[begin]);
}

}  // namespace

std::string short_list(const RankGroup& ranks, size_t room) {
  std::vector<std::string> items;
  size_t length = 0;
  std::string last;
  size_t count = 0;
  for (size_t begin = 0; begin < ranks.size(); ++count) {
    const size_t end = run_end(ranks, begin);
    last = item(ranks, begin, end);
    length += last.size() + 1;
    if (items.size() < kMostItems || length <= room + 1) items.push_back(last);
    begin = end;
  }
  if (items.size() == count) return join(items, ",");
  items.resize(kFirstItems);
  return concat(join(items, ","), ",…,", last);
}

}  // namespace tessera
