#pragma once

#include <functional>
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

/// An operation in flight. Keeps its tensors alive until it has ended.
///
///   at::Tensor sum = all_reduce(x, group).wait();              // blocking
///   Work work = all_reduce(x, group); …; std::move(work).wait();  // overlapped with other work
///
/// If it is destroyed without wait(), the operation is abandoned: later calls on the group throw
/// and say why. The destructor never waits.
///
/// Threads: one thread at a time, which may differ from the one that started the operation. When
/// wait() returns, the result is ready on that thread's current stream.
class [[nodiscard]] Work {
 public:
  explicit Work(std::unique_ptr<comm::detail::PendingOperation> operation);
  Work(Work&&) noexcept;
  Work& operator=(Work&&) = delete;
  ~Work();

  /// Whether it has ended, also on the GPU. For point-to-point operations it is only known after
  /// wait().
  bool is_complete() const;
  /// Calls `callback` once the operation has ended, maybe at once, or on a thread of its own. Only
  /// Gloo's operations report that; for others it is called at once if they have ended already, or
  /// never. For measurements: destroying the Work without wait() then blocks until its end.
  void on_complete(std::function<void()> callback);
  /// The result. CommError if the operation failed or took longer than the group's timeout. Over
  /// NCCL the GPU waits instead of the host, which learns of failures where it waits itself, e.g.
  /// in barrier().
  at::Tensor wait() &&;

 private:
  friend class ListWork;
  std::vector<at::Tensor> results() &&;
  void finish();
  void give_up(const std::string& reason);
  std::unique_ptr<comm::detail::PendingOperation> operation_;
};

/// Like Work, for an operation with several results.
class [[nodiscard]] ListWork {
 public:
  ListWork(Work work) : work_(std::move(work)) {}  // NOLINT(google-explicit-constructor)

  /// As in Work.
  bool is_complete() const { return work_.is_complete(); }
  /// As in Work.
  void on_complete(std::function<void()> callback) { work_.on_complete(std::move(callback)); }
  /// The results, as in Work.
  std::vector<at::Tensor> wait() &&;

 private:
  Work work_;
};

}  // namespace tessera
