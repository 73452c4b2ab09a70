#pragma once

#include <memory>
#include <vector>

namespace at {
class Tensor;
}

namespace tessera {

struct PendingOperation;

/// An operation under way. Holds its tensors until it has ended.
///
///   at::Tensor sum = all_reduce(x, group).wait();              // blocking
///   Work work = all_reduce(x, group); …; std::move(work).wait();  // overlapped with other work
///
/// Dropped without wait, it abandons the operation: the group cannot be used any more and says why.
/// The destructor never waits.
class [[nodiscard]] Work {
 public:
  explicit Work(std::unique_ptr<PendingOperation> operation);
  Work(Work&&) noexcept;
  Work& operator=(Work&&) = delete;
  ~Work();

  /// Whether wait() would return at once; of messages that is not known before they are waited for.
  bool is_complete() const;
  /// The result; throws CommError where the operation failed or took longer than the group's
  /// timeout.
  at::Tensor wait() &&;
  /// The results of an operation that has several.
  std::vector<at::Tensor> wait_all() &&;

 private:
  void finish();
  std::unique_ptr<PendingOperation> operation_;
};

}  // namespace tessera
