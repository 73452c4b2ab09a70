#include "tessera/base/read_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tessera/base/error.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;
using testkit::TemporaryFolder;

std::string refusal(const std::string& path) {
  return message_of<DataError>([&] { open_plain_file(path); });
}

TEST(ReadFile, ReadsWhatIsThereAndStopsBeyondTheLimit) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_file(folder.file("empty", ""), 10), "");
  const std::string two_parts((1 << 20) + 5, 'x');
  EXPECT_EQ(read_file(folder.file("two", two_parts), 1 << 22), two_parts);
  EXPECT_GT(read_file(folder.file("large", std::string(1 << 22, 'x')), 10).size(), 10U);
  EXPECT_LE(read_file(folder.path("large"), 10).size(), size_t{1} << 20);
}

TEST(ReadFile, PipesAndDevicesAreRefusedAtOnce) {
  const TemporaryFolder folder;
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);  // Without a writer, reading would block forever.
  EXPECT_EQ(refusal(pipe), pipe + " is a pipe, not a regular file; give a regular file");
  EXPECT_EQ(refusal("/dev/zero"), "/dev/zero is a device, not a regular file; give a regular file");
  EXPECT_EQ(refusal(folder.path()),
            folder.path() + " is a folder, not a regular file; give a regular file");
  EXPECT_NE(refusal(folder.path("none")).find("cannot open "), std::string::npos);
  EXPECT_THROW(read_file(pipe, 10), DataError);
  EXPECT_THROW(read_file(folder.path(), 10), ConfigError);
}

}  // namespace
}  // namespace tessera
