#include "tessera/train/gather.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <map>
#include <string>
#include <vector>

#include "tessera/comm/collectives.h"
#include "tessera/comm/objects.h"

namespace tessera {
namespace {

/// The spans of one rank's parts: begin and end of each.
using Places = std::map<std::string, std::vector<int64_t>>;

std::map<std::string, Parameter> counted(const Parameters& own) {
  std::map<std::string, Parameter> found;
  for (const Parameter& parameter : own) {
    if (parameter.place.counts) found.emplace(parameter.name, parameter);
  }
  return found;
}

Places places_of(const std::map<std::string, Parameter>& parameters) {
  Places places;
  for (const auto& [name, parameter] : parameters) {
    auto& ends = places[name];
    for (const Span& span : parameter.place.part.spans()) {
      ends.insert(ends.end(), {span.begin, span.end});
    }
  }
  return places;
}

at::Tensor flat_values(const Parameter& parameter) {
  return parameter.tensor.detach().to(at::kCPU).reshape(-1);
}

void put(const at::Tensor& whole, const std::vector<int64_t>& ends, const at::Tensor& part) {
  int64_t done = 0;
  for (size_t i = 0; i < ends.size(); i += 2) {
    const int64_t size = ends[i + 1] - ends[i];
    whole.narrow(0, ends[i], size).copy_(part.narrow(0, done, size));
    done += size;
  }
}

int64_t size_of(const std::vector<int64_t>& ends) {
  int64_t size = 0;
  for (size_t i = 0; i < ends.size(); i += 2) size += ends[i + 1] - ends[i];
  return size;
}

}  // namespace

void gather_parameters(const Parameters& own, const Parameters& whole, const Group& group,
                       const std::function<void(const ParameterSource&)>& write) {
  const at::NoGradGuard no_grad;
  const std::map<std::string, Parameter> mine = counted(own);
  const std::vector<Places> ranks = all_gather_object(places_of(mine), group);
  if (group.rank() != GroupRank{0}) {
    for (const Parameter& wanted : whole) {
      const auto here = mine.find(wanted.name);
      if (here != mine.end()) send(flat_values(here->second), GroupRank{0}, group).wait();
    }
    return;
  }
  write([&](const Parameter& wanted) {
    const auto here = mine.find(wanted.name);
    if (here != mine.end() && here->second.place.part.is_whole()) return here->second.tensor;
    const at::Tensor values = at::empty(wanted.place.part.shape(), wanted.tensor.scalar_type());
    const at::Tensor flat = values.view(-1);
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const auto at = ranks[rank].find(wanted.name);
      if (at == ranks[rank].end()) continue;
      const at::Tensor part = rank == 0 ? flat_values(here->second)
                                        : recv(at::empty({size_of(at->second)}, flat.options()),
                                               GroupRank{static_cast<int64_t>(rank)}, group)
                                              .wait();
      put(flat, at->second, part);
    }
    return values;
  });
}

}  // namespace tessera
