#include "tessera/launch/store_frame.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tessera/base/error.h"

namespace tessera {
namespace {

RC_GTEST_PROP(StoreFrame, ComesBackWholeFromAnyPieces, ()) {
  const auto fields = *rc::gen::arbitrary<std::vector<std::string>>();
  const StoreFrame frame{.op = StoreOp::kSet, .fields = fields};
  const std::string bytes = to_bytes(frame) + to_bytes({.op = StoreOp::kCount});
  std::string buffer;
  std::vector<StoreFrame> taken;
  for (const char byte : bytes) {
    buffer += byte;
    if (const auto one = take_frame(buffer)) taken.push_back(*one);
  }
  RC_ASSERT(taken == (std::vector<StoreFrame>{frame, {.op = StoreOp::kCount}}));
  RC_ASSERT(buffer.empty());
}

RC_GTEST_PROP(StoreFrame, AnyBytesAreAFrameOrRefused, (std::string bytes)) {
  try {
    while (take_frame(bytes, 1000)) {
    }
  } catch (const DataError&) {
  }
}

TEST(StoreFrame, RefusesWhatIsTooLongOrContradictsItself) {
  const auto refuses = [](std::string bytes) {
    EXPECT_THROW((void)take_frame(bytes, 1000), DataError);
  };
  refuses("GET / HTTP/1.1\r\n\r\n");
  refuses(std::string("\xff\xff\xff\xff", 4));
  refuses(std::string("\x05\0\0\0\x63\0\0\0\0", 9));               // Unknown operation.
  refuses(std::string("\x05\0\0\0\x02\xff\xff\xff\xff", 9));       // Fields without bytes.
  refuses(std::string("\x09\0\0\0\x02\x01\0\0\0\x09\0\0\0", 13));  // A field beyond the frame.
  refuses(std::string("\x06\0\0\0\x02\0\0\0\0x", 10));             // Bytes after the fields.
}

}  // namespace
}  // namespace tessera
