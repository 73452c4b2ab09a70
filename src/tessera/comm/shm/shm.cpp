#include <ATen/core/Tensor.h>
#include <c10/core/CPUAllocator.h>
#include <sched.h>

#include <iostream>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "tessera/base/text.h"
#include "tessera/comm/shm/collective_queue.h"
#include "tessera/comm/shm/factory.h"
#include "tessera/comm/shm/hosts.h"
#include "tessera/comm/shm/meeting.h"
#include "tessera/comm/shm/messages.h"
#include "tessera/comm/shm/tensors.h"

namespace tessera::comm::detail::shm {
namespace {

using Tensors = std::vector<at::Tensor>;
using Handle = c10::intrusive_ptr<c10d::Work>;

std::byte* data_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.data_ptr());
}

// Their memory: a tensor may get other memory while the operation goes on.
std::shared_ptr<void> keep(const Tensors& tensors) {
  auto kept = std::make_shared<std::vector<c10::Storage>>();
  for (const at::Tensor& tensor : tensors) kept->push_back(tensor.storage());
  return kept;
}

class MemoryWork : public c10d::Work {
 public:
  MemoryWork(c10::intrusive_ptr<c10d::Backend> backend, Activity& activity,
             std::shared_ptr<Pending> pending)
      : backend_(std::move(backend)), activity_(activity), pending_(std::move(pending)) {}

  bool isCompleted() override {
    if (!has_ended()) activity_.try_advance();
    return has_ended();
  }
  bool isSuccess() const override { return has_ended() && pending_->error == nullptr; }
  bool wait(std::chrono::milliseconds timeout) override {
    if (isSuccess()) return true;
    return activity_.wait(*pending_, timeout);
  }

 private:
  bool has_ended() const { return pending_->ended.load(std::memory_order_acquire); }

  const c10::intrusive_ptr<c10d::Backend> backend_;  // Owns the activity.
  Activity& activity_;
  const std::shared_ptr<Pending> pending_;
};

bool has_fewer_cores(int size) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return sched_getaffinity(0, sizeof(cores), &cores) != 0 || CPU_COUNT(&cores) < size;
}

class MemoryBackend : public c10d::Backend {
 public:
  explicit MemoryBackend(std::unique_ptr<Board> board)
      : c10d::Backend(board->rank(), board->size()),
        board_(std::move(board)),
        patience_(has_fewer_cores(board_->size())),
        collectives_(*board_, patience_),
        senders_(static_cast<size_t>(board_->size())),
        receivers_(static_cast<size_t>(board_->size())) {}

  const std::string getBackendName() const override { return kBackendName; }
  void setTimeout(std::chrono::milliseconds) override {}  // Every wait has one of its own.

  Handle broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    const at::Tensor& data = tensors.at(0);
    return handle(collectives_.broadcast(data_of(data), data.nbytes(),
                                         static_cast<int>(options.rootRank), keep({data})));
  }
  Handle allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    const at::Tensor& data = tensors.at(0);
    return handle(
        collectives_.all_reduce(data_of(data), call_of(data, options.reduceOp), keep({data})));
  }
  Handle reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    const at::Tensor& data = tensors.at(0);
    return handle(collectives_.reduce(data_of(data), call_of(data, options.reduceOp),
                                      static_cast<int>(options.rootRank), keep({data})));
  }
  Handle gather(std::vector<Tensors>& outputs, Tensors& inputs,
                const c10d::GatherOptions& options) override {
    const at::Tensor& input = inputs.at(0);
    Tensors kept{input};
    std::vector<std::byte*> places;
    for (const at::Tensor& output : outputs.empty() ? Tensors{} : outputs.at(0)) {
      kept.push_back(output);
      places.push_back(data_of(output));
    }
    return handle(collectives_.gather(std::move(places), data_of(input), input.nbytes(),
                                      static_cast<int>(options.rootRank), keep(kept)));
  }
  Handle scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                 const c10d::ScatterOptions& options) override {
    const at::Tensor& output = outputs.at(0);
    Tensors kept{output};
    std::vector<const std::byte*> places;
    for (const at::Tensor& input : inputs.empty() ? Tensors{} : inputs.at(0)) {
      kept.push_back(input);
      places.push_back(data_of(input));
    }
    return handle(collectives_.scatter(data_of(output), std::move(places), output.nbytes(),
                                       static_cast<int>(options.rootRank), keep(kept)));
  }
  Handle alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& receive,
                       std::vector<int64_t>& send, const c10d::AllToAllOptions&) override {
    return handle(collectives_.all_to_all(data_of(output), data_of(input),
                                          {receive.begin(), receive.end()},
                                          {send.begin(), send.end()}, keep({output, input})));
  }
  Handle barrier(const c10d::BarrierOptions&) override { return handle(collectives_.barrier()); }
  Handle _allgather_base(at::Tensor& output, at::Tensor& input,
                         const c10d::AllgatherOptions&) override {
    return handle(collectives_.all_gather(data_of(output), data_of(input), input.nbytes(),
                                          keep({output, input})));
  }
  Handle _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                              const c10d::ReduceScatterOptions& options) override {
    return handle(collectives_.reduce_scatter(
        data_of(output), data_of(input), call_of(output, options.reduceOp), keep({output, input})));
  }
  Handle send(Tensors& tensors, int to, int tag) override {
    const at::Tensor& data = tensors.at(0);
    Sender& sender = messages(senders_, to);
    return handle(sender, sender.send(data_of(data), data.nbytes(), tag, keep({data})));
  }
  Handle recv(Tensors& tensors, int from, int tag) override {
    const at::Tensor& data = tensors.at(0);
    Receiver& receiver = messages(receivers_, from);
    return handle(receiver, receiver.receive(data_of(data), data.nbytes(), tag, keep({data})));
  }

 private:
  Handle handle(Activity& activity, std::shared_ptr<Pending> pending) {
    return c10::make_intrusive<MemoryWork>(
        c10::intrusive_ptr<c10d::Backend>::unsafe_reclaim_from_nonowning(this), activity,
        std::move(pending));
  }
  Handle handle(CollectiveQueue::Operation operation) {
    return handle(collectives_, std::move(operation));
  }

  /// Made on first use.
  template <class Messages>
  Messages& messages(std::vector<std::unique_ptr<Messages>>& all, int peer) {
    const std::lock_guard lock(mutex_);
    auto& one = all.at(static_cast<size_t>(peer));
    if (!one) one = std::make_unique<Messages>(*board_, patience_, peer);
    return *one;
  }

  const std::unique_ptr<Board> board_;
  Patience patience_;
  CollectiveQueue collectives_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Sender>> senders_;
  std::vector<std::unique_ptr<Receiver>> receivers_;
};

// Once per process: groups are many, and the reason is mostly the same.
void tell_once(const std::string& reason) {
  static std::once_flag told;
  std::call_once(told, [&] {
    std::cerr << concat("tessera: no shared memory between the ranks of this host (", reason,
                        "); using Gloo, which is slower\n");
  });
}

// Null if the system refuses: then everything is copied.
std::shared_ptr<Arena> make_arena() {
  try {
    return std::make_shared<Arena>();
  } catch (const DataError&) {
    return nullptr;
  }
}

/// Memory of an arena that a tensor uses.
struct Buffer {
  std::shared_ptr<Arena> arena;
  std::byte* data;

  static void release(void* context) {
    const std::unique_ptr<Buffer> buffer(static_cast<Buffer*>(context));
    c10::profiledCPUMemoryReporter().Delete(buffer->data);
    buffer->arena->free(buffer->data);
  }
};

class MemoryEngine : public Engine {
 public:
  MemoryEngine(std::unique_ptr<Engine> other, const LocalAddress& address)
      : other_(std::move(other)), node_(address.node), wanted_(address.shares_memory) {}

  c10::intrusive_ptr<c10d::Backend> create(const CommunicatorRequest& request) override {
    auto met = meet(*request.store,
                    {.rank = request.rank,
                     .size = request.size,
                     .node = node_,
                     .wanted = wanted_,
                     .arena = arena_},
                    open_arenas_);
    if (auto* const meeting = std::get_if<Meeting>(&met)) {
      const std::vector<int> hosts = meeting->hosts;
      const bool alone = meeting->num_hosts() == 1;
      auto memory = c10::make_intrusive<MemoryBackend>(std::move(meeting->board));
      if (alone) return memory;
      return join_hosts(std::move(memory), hosts, request, *other_);
    }
    const std::string& reason = std::get<Refusal>(met).reason;
    if (!reason.empty() && request.rank == 0) tell_once(reason);
    return other_->create(request);
  }

  std::optional<c10::DataPtr> buffer(size_t bytes) override {
    std::byte* const data = arena_ ? arena_->allocate(bytes) : nullptr;
    if (data == nullptr) return std::nullopt;
    c10::profiledCPUMemoryReporter().New(data, bytes);  // As for other tensors.
    return c10::DataPtr(data, new Buffer{arena_, data}, &Buffer::release, c10::kCPU);
  }

 private:
  const std::unique_ptr<Engine> other_;
  const int64_t node_;
  const bool wanted_;
  const std::shared_ptr<Arena> arena_ = wanted_ ? make_arena() : nullptr;
  OpenArenas open_arenas_;
};

}  // namespace

std::unique_ptr<Engine> make_engine(std::unique_ptr<Engine> other, const LocalAddress& address) {
  return std::make_unique<MemoryEngine>(std::move(other), address);
}

}  // namespace tessera::comm::detail::shm
