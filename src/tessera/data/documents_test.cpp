#include "tessera/data/documents.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Documents, EndWithTheirEndToken) {
  BatchRows rows{.rows = 2,
                 .seq = 5,
                 .inputs = {7, 0, 8, 8, 0, 0, 9, 9, 9, 9},
                 .targets = {0, 8, 8, 0, 5, 9, 9, 9, 9, 0}};
  EXPECT_EQ(document_numbers(rows, 0), (std::vector<int64_t>{0, 0, 1, 1, 1, 0, 1, 1, 1, 1}));
  ignore_document_ends(rows, 0, -100);
  EXPECT_EQ(rows.targets, (std::vector<int64_t>{0, -100, 8, 0, -100, -100, 9, 9, 9, 0}));
}

}  // namespace
}  // namespace tessera
