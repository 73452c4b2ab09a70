#include "tessera/parallel/context/internal/exchanges.h"

namespace tessera::context::detail {

AttentionKernel recorded(const AttentionKernel& kernel, const UnitLog& log) {
  if (!log.is_recording()) return kernel;
  return {.forward =
              [kernel, log](const AttentionInputs& in) {
                const UnitSpan product = log.begin(UnitAction::kAttend);
                AttentionKernel::Results results = kernel.forward(in);
                product.end();
                return results;
              },
          .backward =
              [kernel, log](const at::Tensor& gradient, const AttentionInputs& in,
                            const AttentionKernel::Results& results) {
                const UnitSpan product = log.begin(UnitAction::kAttend);
                AttentionInputs gradients = kernel.backward(gradient, in, results);
                product.end();
                return gradients;
              }};
}

}  // namespace tessera::context::detail
