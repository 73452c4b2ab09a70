#include "tessera/plan/group_kind.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

Layout pipelines() {
  return Layout::row_major({{"pp", 4}, {"dp", 2}});
}

TEST(GroupKind, AllMembersOfALine) {
  const GroupKind kind("PIPELINE", "pp", pipelines(), {"pp"});
  EXPECT_EQ(kind.size(), 4);
  EXPECT_EQ(kind.count(), 2);
  EXPECT_EQ(kind.group_of({3}), to_ranks({1, 3, 5, 7}));
  EXPECT_EQ(kind.group(0), to_ranks({0, 2, 4, 6}));
}

TEST(GroupKind, EndsAndFirstLeaveOthersOut) {
  const GroupKind ends("EMBEDDING", "pp ends", pipelines(), {"pp"}, Members::kEnds);
  EXPECT_EQ(ends.size(), 2);
  EXPECT_EQ(ends.group_of({7}), to_ranks({1, 7}));
  EXPECT_EQ(ends.group_of({3}), std::nullopt);
  const GroupKind first("POSITION", "pp first", pipelines(), {"pp"}, Members::kFirst);
  EXPECT_EQ(first.group_of({1}), to_ranks({1}));
  EXPECT_EQ(first.group_of({7}), std::nullopt);
  EXPECT_EQ(first.groups(), (std::vector{to_ranks({0}), to_ranks({1})}));
}

TEST(GroupKind, EndsOfALineOfOneAreThatOne) {
  const GroupKind kind("EMBEDDING", "pp ends", Layout::row_major({{"pp", 1}}), {"pp"},
                       Members::kEnds);
  EXPECT_EQ(kind.size(), 1);
  EXPECT_EQ(kind.group_of({0}), to_ranks({0}));
}

}  // namespace
}  // namespace tessera
