#include "tessera/format/event_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>

#include "tessera/base/error.h"
#include "tests/testkit/temporary_folder.h"

namespace tessera {
namespace {

using testkit::TemporaryFolder;

std::string hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

// Bytes that TensorBoard's own reader has accepted.
TEST(EventFile, RecordsHaveTheBytesOfTheFormat) {
  EXPECT_EQ(hex(version_record(1'700'000'000)),
            "1800000000000000a37f4b220900000040fc54d9411a0d627261696e2e4576656e743a32eced8f9d");
  const std::array scalars{EventScalar{"train/loss", 2.5}};
  EXPECT_EQ(hex(scalar_record(1'700'000'001, 0, scalars)),
            "200000000000000029eda9500900004040fc54d94110002a130a110a0a747261696e2f6c6f737315000020"
            "404ee83bd5");
}

TEST(EventFile, LargeStepsTakeSeveralBytes) {
  const std::string record = scalar_record(0, 300, {});
  EXPECT_NE(hex(record).find("10ac02"), std::string::npos);
}

TEST(EventFile, FilesFollowEachOtherInNameOrder) {
  const TemporaryFolder folder;
  std::vector<std::string> in_order;
  for (int i = 0; i < 3; ++i) {
    EventFile file(folder.path() + "/events", /*first_step=*/i);
    const std::array scalars{EventScalar{"a", std::numeric_limits<double>::quiet_NaN()}};
    file.append(i, scalars);
    in_order.push_back(file.path());
    EXPECT_TRUE(is_event_file(std::filesystem::path(file.path()).filename().string()));
  }
  EXPECT_TRUE(std::ranges::is_sorted(in_order));
  EXPECT_LT(std::filesystem::file_size(in_order[0]), std::filesystem::file_size(in_order[1]))
      << "a resumed run says so";
}

TEST(EventFile, AFolderThatIsAFileIsNamed) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x", "");
  EXPECT_THROW(EventFile(path, 0), DataError);
}

}  // namespace
}  // namespace tessera
