#include "tessera/comm/work.h"

#include <algorithm>
#include <future>

#include "tessera/base/check.h"
#include "tessera/comm/internal/engine_error.h"
#include "tessera/comm/internal/operation.h"

namespace tessera {

using namespace comm::detail;

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

// Gloo's messages know that they have ended only in wait().
void Work::on_complete(std::function<void()> callback) {
  if (is_complete()) return callback();
  if (operation_->group.backend() != Backend::kGloo) return;
  operation_->waiting = std::async(std::launch::async,
                                   [operation = operation_.get(), callback = std::move(callback)] {
                                     operation->wait_for_handles();
                                     callback();
                                   });
}

void Work::give_up(const std::string& reason) {
  if (operation_->communicator) operation_->communicator->poison(reason);
  operation_.reset();
}

void Work::finish() {
  if (!operation_)
    throw StateError("wait() was called twice on one Work; use the result of the first call");
  operation_->tell_recorder(&Recorder::waiting);
  try {
    operation_->wait();
    if (operation_->finish) operation_->finish();
    operation_->move_results();
  } catch (const CommError& error) {
    give_up(error.what());
    throw;
  } catch (const std::exception& error) {
    const std::string failure =
        concat(operation_->name, " #", operation_->sequence, " of group ", operation_->group.name(),
               " failed on this rank: ", engine_message(error));
    give_up(failure);
    throw CommError(failure);
  }
  operation_->tell_recorder(&Recorder::completed);
}

at::Tensor Work::wait() && {
  finish();
  const std::unique_ptr<PendingOperation> done = std::move(operation_);
  return done->results.empty() ? at::Tensor() : done->results.front();
}

std::vector<at::Tensor> Work::results() && {
  finish();
  const std::unique_ptr<PendingOperation> done = std::move(operation_);
  return std::move(done->results);
}

std::vector<at::Tensor> ListWork::wait() && {
  return std::move(work_).results();
}

}  // namespace tessera
