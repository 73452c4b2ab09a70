#include "tessera/data/whole_rows.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using Ids = std::vector<int64_t>;

class WholeRowsTest : public testing::Test {
 protected:
  const testkit::TemporaryFolder folder_;
  TokenData data(const std::vector<std::string>& texts) const {
    DataOptions options;
    for (const std::string& text : texts) {
      options.paths.push_back(folder_.file(std::to_string(options.paths.size()), text));
    }
    return TokenData(options);
  }
};

TEST_F(WholeRowsTest, EveryTokenIsATargetOnce) {
  const WholeRows all(data({"abcdef", "x", "uvw"}), {.batch = 2, .seq = 3, .ignored = -1});
  EXPECT_EQ(all.targets(), 7);
  ASSERT_EQ(all.batches(), 2);
  EXPECT_EQ(all.rows(0, 0, 2).inputs, (Ids{'a', 'b', 'c', 'd', 'e', 0}));
  EXPECT_EQ(all.rows(0, 0, 2).targets, (Ids{'b', 'c', 'd', 'e', 'f', -1}));
  EXPECT_EQ(all.rows(1, 0, 2).inputs, (Ids{'u', 'v', 0, 0, 0, 0}));
  EXPECT_EQ(all.rows(1, 0, 2).targets, (Ids{'v', 'w', -1, -1, -1, -1}));
  EXPECT_EQ(all.rows(1, 1, 2).targets, (Ids{-1, -1, -1}));
  EXPECT_EQ(all.rows(1, 1, 1).rows, 0);
}

TEST_F(WholeRowsTest, WithoutPadding) {
  const WholeRows all(data({"abcde"}), {.batch = 2, .seq = 2});
  ASSERT_EQ(all.batches(), 1);
  EXPECT_EQ(all.rows(0, 0, 2).targets, (Ids{'b', 'c', 'd', 'e'}));
}

TEST_F(WholeRowsTest, NeedsTwoTokens) {
  EXPECT_NE(testkit::message_of<ConfigError>([&] {
              WholeRows(data({"a"}), {});
            }).find("fewer than two tokens"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera
