#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The requests of a store's clients, and its answers.
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
  kTimeout,     // The keys did not exist in time.
  kRefused,     // The reason.
};

/// The first field of kHello: the protocol version.
constexpr std::string_view kStoreVersion = "tessera store 1";

/// A request or an answer.
struct StoreFrame {
  StoreOp op = StoreOp::kOk;             // From kOk on: an answer.
  std::vector<std::string> fields = {};  // As listed at StoreOp; any bytes.

  friend bool operator==(const StoreFrame&, const StoreFrame&) = default;
};

/// The longest accepted frame; typical values have a few kilobytes.
constexpr size_t kLongestStoreFrame = size_t{256} << 20;

/// On the wire: the length of the rest, the operation, the number of fields, and each field with
/// its length; little-endian.
std::string to_bytes(const StoreFrame& frame);

/// Removes the first frame from the buffer; nothing if it is incomplete. DataError for invalid
/// frames and for one longer than `longest`.
std::optional<StoreFrame> take_frame(std::string& buffer, size_t longest = kLongestStoreFrame);

}  // namespace tessera
