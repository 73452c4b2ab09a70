#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"
#include "tessera/launch/store_address.h"
#include "tessera/launch/store_frame.h"

namespace tessera TSR_API {

/// A connection to a job's store. Threads may share it; their requests run one after the other.
class StoreClient {
 public:
  /// Unit of the time limits.
  using Milliseconds = std::chrono::milliseconds;

  /// CommError if there is no store within the time; ConfigError if it has another secret.
  StoreClient(const StoreAddress& address, const std::string& secret, Milliseconds timeout);

  /// The answer to a request. CommError if the store is gone, or does not answer within `patience`
  /// plus a few seconds.
  StoreFrame ask(const StoreFrame& request, Milliseconds patience);

 private:
  StoreFrame exchange(const StoreFrame& request, Milliseconds patience);

  std::string place_;
  std::mutex mutex_;
  Descriptor socket_;
  std::string received_;
};

}  // namespace tessera
