#include "tessera/plan/packed_documents.h"

#include <algorithm>
#include <numeric>

#include "tessera/base/check.h"
#include "tessera/plan/internal/context_lengths.h"

namespace tessera {
using namespace plan::detail;
namespace {

// The document of a position, by the cumulative lengths.
size_t document_at(const std::vector<int64_t>& cumulative, int64_t position) {
  TSR_CHECK(0 <= position && position < cumulative.back(), "position ", position,
            " is outside the sequence of ", cumulative.back());
  const auto after = std::ranges::upper_bound(cumulative, position);
  return static_cast<size_t>(after - cumulative.begin() - 1);
}

}  // namespace

PaddedDocuments pad_documents(const DocumentLengths& documents, int64_t multiple) {
  total_length(documents);
  TSR_CHECK(1 <= multiple && multiple <= kMostPositions, "the multiple of document lengths is ",
            multiple, ", but must be from 1 to ", kMostPositions);
  DocumentLengths padded;
  for (const int64_t length : documents) {
    padded.push_back((length + multiple - 1) / multiple * multiple);
  }
  total_length(padded);
  return {documents, std::move(padded)};
}

std::vector<int64_t> PaddedDocuments::unpadded(const std::vector<int64_t>& positions) const {
  const std::vector<int64_t> before = cumulative_lengths(lengths);
  const std::vector<int64_t> after = cumulative_lengths(padded);
  std::vector<int64_t> result;
  for (const int64_t position : positions) {
    const size_t document = document_at(after, position);
    const int64_t offset = position - after[document];
    result.push_back(offset < lengths[document] ? before[document] + offset : kPadding);
  }
  return result;
}

std::vector<int64_t> cumulative_lengths(const DocumentLengths& documents) {
  std::vector<int64_t> sums{0};
  std::partial_sum(documents.begin(), documents.end(), std::back_inserter(sums));
  return sums;
}

DocumentLengths lengths_of(const std::vector<int64_t>& cumulative) {
  TSR_CHECK(cumulative.size() >= 2 && cumulative.front() == 0,
            "the cumulative lengths must start with 0 and end with the length of the sequence");
  DocumentLengths lengths;
  for (size_t i = 1; i < cumulative.size(); ++i) {
    TSR_CHECK(cumulative[i] > cumulative[i - 1], "the cumulative lengths ", join(cumulative, ", "),
              " do not increase");
    lengths.push_back(cumulative[i] - cumulative[i - 1]);
  }
  return lengths;
}

std::vector<int64_t> positions_in_documents(const std::vector<int64_t>& positions,
                                            const DocumentLengths& documents) {
  total_length(documents);
  const std::vector<int64_t> begins = cumulative_lengths(documents);
  std::vector<int64_t> result;
  for (const int64_t position : positions) {
    result.push_back(position - begins[document_at(begins, position)]);
  }
  return result;
}

ValidLengths valid_lengths(const PaddedDocuments& documents, int64_t ranks, int64_t rank) {
  TSR_CHECK(0 <= rank && rank < ranks, "context-parallel rank ", rank, " is outside 0 to ",
            ranks - 1);
  ValidLengths valid;
  for (size_t i = 0; i < documents.lengths.size(); ++i) {
    TSR_CHECK(documents.padded[i] % (2 * ranks) == 0, "document ", i, " is padded to ",
              documents.padded[i], ", which is not a multiple of 2·cp = ", 2 * ranks);
    const int64_t chunk = documents.padded[i] / (2 * ranks);
    const auto tokens = [&](int64_t index) {
      return std::clamp(documents.lengths[i] - index * chunk, int64_t{0}, chunk);
    };
    valid.head.push_back(tokens(rank));
    valid.tail.push_back(tokens(2 * ranks - 1 - rank));
  }
  return valid;
}

}  // namespace tessera
