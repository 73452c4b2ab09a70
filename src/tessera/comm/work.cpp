#include "tessera/comm/work.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/comm/internal/operation.h"

namespace tessera {
namespace {

std::string describe(const PendingOperation& operation) {
  const auto elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - operation.started);
  return concat(operation.name, " #", operation.sequence, " of group ", operation.group, " after ",
                elapsed.count(), " ms");
}

}  // namespace

Work::Work(std::unique_ptr<PendingOperation> operation) : operation_(std::move(operation)) {}
Work::Work(Work&&) noexcept = default;

Work::~Work() {
  if (!operation_ || !operation_->communicator) return;
  operation_->communicator->poison(
      concat(operation_->name, " #", operation_->sequence, " was dropped without wait()"));
}

bool Work::is_complete() const {
  return !operation_ || std::ranges::all_of(operation_->handles, [](const auto& handle) {
    return handle->isCompleted();
  });
}

void Work::finish() {
  if (!operation_)
    throw StateError("wait() was called twice on one Work; the first call has the result");
  for (const auto& handle : operation_->handles) {
    try {
      handle->wait(operation_->timeout);
    } catch (const std::exception& error) {
      const std::string message = concat(describe(*operation_), " failed: ", error.what());
      operation_->communicator->poison(message);
      operation_.reset();
      std::throw_with_nested(CommError(message));
    }
  }
  if (operation_->finish) operation_->finish();
}

at::Tensor Work::wait() && {
  finish();
  const std::unique_ptr<PendingOperation> done = std::move(operation_);
  return done->results.empty() ? at::Tensor() : done->results.front();
}

std::vector<at::Tensor> Work::wait_all() && {
  finish();
  const std::unique_ptr<PendingOperation> done = std::move(operation_);
  return std::move(done->results);
}

}  // namespace tessera
