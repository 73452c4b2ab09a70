#include "cli/help.h"

#include <gtest/gtest.h>

namespace tessera::cli {
namespace {

TEST(FoldedHelp, KeepsWhatAFlagDoesInItsColumn) {
  EXPECT_EQ(folded_help("Does things.\n"
                        "Usage: program [OPTIONS]\n"
                        "\n"
                        "Options:\n"
                        "  -h,--help                       Print this help\n"
                        "  --bare N                        \n"
                        "  --exactly-as-wide-as-the-column what it does\n"
                        "  --data A,B,…                  files and folders to read and to count\n"
                        "  --a-flag-with-a-long-name one|two|three\n"
                        "                                  what it does in a few words\n",
                        60),
            "Does things.\n"
            "Usage: program [OPTIONS]\n"
            "\n"
            "Options:\n"
            "  -h,--help                       Print this help\n"
            "  --bare N\n"
            "  --exactly-as-wide-as-the-column what it does\n"
            "  --data A,B,…                    files and folders to read\n"
            "                                  and to count\n"
            "  --a-flag-with-a-long-name one|two|three\n"
            "                                  what it does in a few\n"
            "                                  words\n");
}

TEST(FoldedHelp, FoldsOtherLinesInColumnZero) {
  EXPECT_EQ(
      folded_help("one two three four five six seven eight nine ten eleven twelve thirteen\n", 60),
      "one two three four five six seven eight nine ten eleven\ntwelve thirteen\n");
}

}  // namespace
}  // namespace tessera::cli
