#include "cli/table.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"

namespace tessera::cli {
namespace {

TEST(Table, AlignsColumnsByWhatIsSeen) {
  Table table;
  table.add_column("kind");
  table.add_column("size", Align::kRight);
  table.add_column("members");
  table.add_row({"tp", "8", "0,8,…"});
  table.add_row({"tp-dp…", "1024", ""});
  EXPECT_EQ(table.to_string(),
            "kind    size  members\n"
            "tp         8  0,8,…\n"
            "tp-dp…  1024\n");
}

TEST(Table, ARowHasOneCellPerColumn) {
  Table table;
  table.add_column("kind");
  EXPECT_THROW(table.add_row({"a", "b"}), InternalError);
}

}  // namespace
}  // namespace tessera::cli
