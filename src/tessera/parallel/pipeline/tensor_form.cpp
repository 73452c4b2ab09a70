#include "tessera/parallel/pipeline/internal/tensor_form.h"
#include "tessera/base/text.h"

namespace tessera::pipeline::detail {

TensorForms forms_of(const Tensors& tensors, bool training) {
  TensorForms forms;
  for (const at::Tensor& tensor : tensors) {
    forms.push_back({.dtype = tensor.scalar_type(),
                     .requires_grad = training && tensor.requires_grad(),
                     .sizes = tensor.sizes().vec()});
  }
  return forms;
}

TensorForms gradient_forms(const TensorForms& forms) {
  TensorForms gradients;
  for (const TensorForm& form : forms) {
    if (form.requires_grad) gradients.push_back({.dtype = form.dtype, .sizes = form.sizes});
  }
  return gradients;
}

std::string to_string(const TensorForms& forms) {
  std::vector<std::string> texts;
  for (const TensorForm& form : forms) {
    texts.push_back(concat(at::toString(form.dtype), " [", join(form.sizes, ", "), "]",
                           form.requires_grad ? " with gradient" : ""));
  }
  return texts.empty() ? "nothing" : join(texts, ", ");
}

}  // namespace tessera::pipeline::detail
