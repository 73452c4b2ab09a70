#include "tessera/train/non_finite.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tessera/base/text.h"
#include "tessera/comm/objects.h"
#include "tessera/optim/clip.h"
#include "tessera/train/engine.h"

namespace tessera {
namespace {

/// What one rank found; the ranks compare the rank first.
using Finding = std::pair<int64_t, std::string>;

constexpr int64_t kNobody = std::numeric_limits<int64_t>::max();

std::string own_finding(const Engine& engine, int64_t rank, bool of_loss) {
  if (of_loss) {
    const double own = engine.own_loss().defined() ? engine.own_loss().item<double>() : 0;
    return std::isfinite(own) ? "" : concat("the loss of rank ", rank, " is ", own);
  }
  const std::string names = non_finite_gradients(engine.parameters());
  return names.empty() ? ""
                       : concat("on rank ", rank, ", the gradients of ", names, " are non-finite");
}

}  // namespace

std::string first_non_finite(const Engine& engine, double loss) {
  const Group& pp = engine.plan().group("pp");
  const int64_t rank = pp.global_rank(pp.rank()).value;
  std::string own = own_finding(engine, rank, !std::isfinite(loss));
  Finding first{own.empty() ? kNobody : rank, std::move(own)};
  // Together, these groups reach every rank.
  for (const char* const group : {"tp", "loss", "pp"}) {
    first = std::ranges::min(all_gather_object(first, engine.plan().group(group)));
  }
  if (first.first != kNobody) return first.second;
  return std::isfinite(loss) ? "the norm of the gradients is too large for its dtype"
                             : concat("the loss is ", loss, ", a sum of the ranks' losses");
}

}  // namespace tessera
