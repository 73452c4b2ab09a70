#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "tessera/launch/store_address.h"
#include "tessera/launch/store_client.h"

namespace tessera::comm::detail {

/// The store of a job, as a c10d::Store for LibTorch's back ends.
class JobStore : public c10d::Store {
 public:
  JobStore(const StoreAddress& address, const std::string& secret,
           std::chrono::milliseconds timeout);

  /// The same keys over another connection.
  c10::intrusive_ptr<c10d::Store> clone() override;

  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                  const std::vector<uint8_t>& desired) override;
  std::vector<uint8_t> get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;
  void append(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<std::vector<uint8_t>> multiGet(const std::vector<std::string>& keys) override;
  void multiSet(const std::vector<std::string>& keys,
                const std::vector<std::vector<uint8_t>>& values) override;
  bool hasExtendedApi() const override { return true; }

 private:
  std::vector<std::string> ask(StoreOp op, std::vector<std::string> fields,
                               std::chrono::milliseconds timeout = {});

  const StoreAddress address_;
  const std::string secret_;
  StoreClient client_;
};

}  // namespace tessera::comm::detail
