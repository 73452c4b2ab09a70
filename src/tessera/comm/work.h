#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/export.h"

namespace at {
class Tensor;
}

namespace tessera::comm::detail {
struct PendingOperation;
}

namespace tessera TSR_API {

/// An operation under way. Holds its tensors until it has ended.
///
///   at::Tensor sum = all_reduce(x, group).wait();              // blocking
///   Work work = all_reduce(x, group); …; std::move(work).wait();  // overlapped with other work
///
/// Dropped without wait, it abandons the operation: the group cannot be used any more and says why.
/// The destructor never waits.
///
/// Thread rules: one thread at a time, which need not be the one that started the operation. wait()
/// returns when the result may be used on that thread's current stream.
class [[nodiscard]] Work {
 public:
  explicit Work(std::unique_ptr<comm::detail::PendingOperation> operation);
  Work(Work&&) noexcept;
  Work& operator=(Work&&) = delete;
  ~Work();

  /// Whether wait() would return at once; of messages that is not known before they are waited for.
  bool is_complete() const;
  /// The result; throws CommError where the operation failed or took longer than the group's
  /// timeout.
  at::Tensor wait() &&;

 private:
  friend class ListWork;
  std::vector<at::Tensor> results() &&;
  void finish();
  void give_up(const std::string& reason);
  std::unique_ptr<comm::detail::PendingOperation> operation_;
};

/// The same of an operation with several results.
class [[nodiscard]] ListWork {
 public:
  ListWork(Work work) : work_(std::move(work)) {}  // NOLINT(google-explicit-constructor)

  bool is_complete() const { return work_.is_complete(); }
  std::vector<at::Tensor> wait() &&;

 private:
  Work work_;
};

}  // namespace tessera
