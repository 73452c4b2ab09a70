#include "tessera/hook/internal/operator_mode.h"

#include <torch/library.h>

#include <utility>

namespace tessera::hook::detail {
namespace {

thread_local OperatorHandler handler = nullptr;
thread_local int num_offers = 0;

void offer(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard not_again(kOperatorMode);
  (handler != nullptr ? handler : run_watched)(op, stack);
}

}  // namespace

OfferOperators::OfferOperators() {
  if (num_offers++ == 0) c10::impl::tls_set_dispatch_key_included(kOperatorMode, true);
}

OfferOperators::~OfferOperators() {
  if (--num_offers == 0) c10::impl::tls_set_dispatch_key_included(kOperatorMode, false);
}

HandleOperators::HandleOperators(OperatorHandler given)
    : previous_(std::exchange(handler, given)) {}

HandleOperators::~HandleOperators() {
  handler = previous_;
}

}  // namespace tessera::hook::detail

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&tessera::hook::detail::offer>());
}
