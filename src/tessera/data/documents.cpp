#include "tessera/data/documents.h"

namespace tessera {

std::vector<int64_t> document_numbers(const BatchRows& rows, int64_t end) {
  std::vector<int64_t> numbers;
  numbers.reserve(rows.inputs.size());
  for (size_t i = 0; i < rows.inputs.size(); ++i) {
    if (i % static_cast<size_t>(rows.seq) == 0) {
      numbers.push_back(0);
    } else {
      numbers.push_back(numbers.back() + (rows.inputs[i - 1] == end ? 1 : 0));
    }
  }
  return numbers;
}

void ignore_document_ends(BatchRows& rows, int64_t end, int64_t ignored) {
  for (size_t i = 0; i < rows.inputs.size(); ++i) {
    if (rows.inputs[i] == end) rows.targets[i] = ignored;
  }
}

}  // namespace tessera
