#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// What the clients of a job's store ask, and what it answers.
enum class StoreOp : uint8_t {
  kHello = 1,   // version, secret
  kSet,         // key, value, key, value, …
  kGet,         // milliseconds, key, …: the values, once all keys exist
  kWait,        // milliseconds, key, …: answered once all keys exist
  kCompareSet,  // key, expected, desired: the value afterwards
  kAdd,         // key, number: the sum
  kAppend,      // key, value
  kDelete,      // key: "1" if it existed
  kCheck,       // key, …: "1" if all exist
  kCount,       // The number of keys.
  kOk = 100,    // The answer.
  kTimeout,     // The keys did not come in time.
  kRefused,     // Why.
};

/// What a kHello begins with: both ends speak this protocol.
constexpr std::string_view kStoreVersion = "tessera store 1";

/// A message between a store and its client.
struct StoreFrame {
  StoreOp op = StoreOp::kOk;
  std::vector<std::string> fields = {};

  friend bool operator==(const StoreFrame&, const StoreFrame&) = default;
};

/// The longest frame that is read: a value of the store is a few kilobytes.
constexpr size_t kLongestStoreFrame = size_t{256} << 20;

/// On the wire: the length of the rest, the operation, the number of fields, and each field with
/// its length; little-endian.
std::string to_bytes(const StoreFrame& frame);

/// Takes the first frame off the buffer; nothing if its end has not come. DataError for what is not
/// a frame, and for one longer than `longest`.
std::optional<StoreFrame> take_frame(std::string& buffer, size_t longest = kLongestStoreFrame);

}  // namespace tessera
