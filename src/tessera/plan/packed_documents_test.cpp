#include "tessera/plan/packed_documents.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

TEST(PackedDocuments, ArePaddedAtTheirEnds) {
  const PaddedDocuments documents = pad_documents({3, 4, 5}, 4);
  EXPECT_EQ(documents.padded, (DocumentLengths{4, 4, 8}));
  EXPECT_EQ(documents.unpadded({0, 2, 3, 4, 7, 8, 12, 13}),
            (std::vector<int64_t>{0, 2, kPadding, 3, 6, 7, 11, kPadding}));
  EXPECT_THROW(documents.unpadded({16}), ConfigError);
}

TEST(PackedDocuments, CumulativeLengthsAndBack) {
  EXPECT_EQ(cumulative_lengths({3, 4}), (std::vector<int64_t>{0, 3, 7}));
  EXPECT_EQ(lengths_of({0, 3, 7}), (DocumentLengths{3, 4}));
  EXPECT_THROW(lengths_of({2, 6}), ConfigError);
  EXPECT_THROW(lengths_of({0, 6, 6}), ConfigError);
  EXPECT_THROW(lengths_of({0}), ConfigError);
  EXPECT_THROW(lengths_of({}), ConfigError);
}

TEST(PackedDocuments, PositionsStartAnewInEach) {
  EXPECT_EQ(positions_in_documents({0, 2, 3, 4}, {3, 2}), (std::vector<int64_t>{0, 2, 0, 1}));
  EXPECT_THROW(positions_in_documents({-1}, {3}), ConfigError);
  EXPECT_THROW(positions_in_documents({0}, {3, 0}), ConfigError);
}

TEST(PackedDocuments, ValidLengthsNeedPaddingToChunks) {
  EXPECT_EQ(testkit::message_of<ConfigError>([] { valid_lengths(pad_documents({6}, 1), 2, 0); }),
            "document 0 is padded to 6, which is not a multiple of 2·cp = 4");
  EXPECT_THROW(valid_lengths(pad_documents({6}, 4), 2, 2), ConfigError);
}

// Valid lengths count the positions of a rank that are no padding, document by document.
RC_GTEST_PROP(PackedDocumentsProperty, ValidLengthsCountTheTokensOfARank, ()) {
  const auto lengths =
      *rc::gen::nonEmpty(rc::gen::container<DocumentLengths>(rc::gen::inRange<int64_t>(1, 60)));
  const auto ranks = *rc::gen::inRange<int64_t>(1, 7);
  const PaddedDocuments documents = pad_documents(lengths, 2 * ranks);
  const ContextLayout layout = ContextLayout::per_document(documents.padded, ranks);
  DocumentLengths sums(lengths.size());
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const ValidLengths valid = valid_lengths(documents, ranks, rank);
    int64_t tokens = 0;
    for (size_t i = 0; i < lengths.size(); ++i) {
      sums[i] += valid.head[i] + valid.tail[i];
      tokens += valid.head[i] + valid.tail[i];
    }
    const std::vector<int64_t> own = documents.unpadded(layout.positions(rank));
    const auto padding = std::ranges::count(own, kPadding);
    RC_ASSERT(static_cast<int64_t>(own.size()) - padding == tokens);
    RC_ASSERT(own.size() % 2 == 0U);
  }
  RC_ASSERT(sums == lengths);
}

}  // namespace
}  // namespace tessera
