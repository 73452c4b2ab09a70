#include "tessera/comm/shm/hosts.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/comm/shm/factory.h"
#include "tessera/comm/shm/numbers.h"
#include "tessera/comm/shm/tensors.h"

namespace tessera::comm::detail::shm {
namespace {

using Tensors = std::vector<at::Tensor>;
using Handle = c10::intrusive_ptr<c10d::Work>;
using BackendPointer = c10::intrusive_ptr<c10d::Backend>;

/// Work of the thread below.
class QueuedWork : public c10d::Work {
 public:
  explicit QueuedWork(std::function<void()> body) : body_(std::move(body)) {}

  void run() {
    try {
      body_();
      body_ = nullptr;  // Releases its tensors.
      finish();
    } catch (...) {
      finish(std::current_exception());
    }
  }

 private:
  std::function<void()> body_;
};

/// Runs one after the other what was started.
class WorkThread {
 public:
  Handle start(std::function<void()> body) {
    auto work = c10::make_intrusive<QueuedWork>(std::move(body));
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(work);
    }
    changed_.notify_one();
    return work;
  }

 private:
  void run(const std::stop_token& end) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, end, [this] { return !queue_.empty(); })) {
      const auto work = queue_.front();
      queue_.pop_front();
      lock.unlock();
      work->run();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<c10::intrusive_ptr<QueuedWork>> queue_;
  std::jthread thread_{[this](const std::stop_token& end) { run(end); }};  // Last: it ends first.
};

/// Where a rank of the group is.
struct Place {
  int host = 0;
  int local = 0;  // Its number on its host.
};

std::vector<Place> places_of(const std::vector<int>& hosts) {
  std::vector<Place> places;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto before =
        std::count(hosts.begin(), hosts.begin() + static_cast<ptrdiff_t>(rank), hosts[rank]);
    places.push_back({hosts[rank], static_cast<int>(before)});
  }
  return places;
}

/// The communicators of a rank.
struct Engines {
  BackendPointer memory;   // The ranks of this host.
  BackendPointer between;  // One rank of each host, with this rank's number.
  BackendPointer all;      // All ranks, for what has no version for hosts.
};

class HostsBackend : public c10d::Backend {
 public:
  HostsBackend(Engines engines, std::vector<Place> places, const CommunicatorRequest& request)
      : c10d::Backend(request.rank, request.size),
        engines_(std::move(engines)),
        places_(std::move(places)),
        timeout_(request.timeout),
        num_hosts_(request.size / engines_.memory->getSize()),
        per_host_(engines_.memory->getSize()) {}

  const std::string getBackendName() const override { return kHostsBackendName; }
  void setTimeout(std::chrono::milliseconds timeout) override {
    timeout_ = timeout;
    engines_.between->setTimeout(timeout);
    engines_.all->setTimeout(timeout);
  }

  Handle allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return thread_.start([this, data = tensors.at(0), options] { reduce_all(data, options); });
  }
  Handle _allgather_base(at::Tensor& output, at::Tensor& input,
                         const c10d::AllgatherOptions&) override {
    return thread_.start([this, output, input] { gather_all(output, input); });
  }
  Handle _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                              const c10d::ReduceScatterOptions& options) override {
    return thread_.start(
        [this, output, input, options] { scatter_reduced(output, input, options); });
  }

  Handle broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return engines_.all->broadcast(tensors, options);
  }
  Handle reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    return engines_.all->reduce(tensors, options);
  }
  Handle gather(std::vector<Tensors>& outputs, Tensors& inputs,
                const c10d::GatherOptions& options) override {
    return engines_.all->gather(outputs, inputs, options);
  }
  Handle scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                 const c10d::ScatterOptions& options) override {
    return engines_.all->scatter(outputs, inputs, options);
  }
  Handle alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& receive,
                       std::vector<int64_t>& send, const c10d::AllToAllOptions& options) override {
    return engines_.all->alltoall_base(output, input, receive, send, options);
  }
  Handle barrier(const c10d::BarrierOptions& options) override {
    return engines_.all->barrier(options);
  }
  Handle send(Tensors& tensors, int to, int tag) override {
    return engines_.all->send(tensors, to, tag);
  }
  Handle recv(Tensors& tensors, int from, int tag) override {
    return engines_.all->recv(tensors, from, tag);
  }

 private:
  void wait(const Handle& handle) const {
    if (!handle->wait(timeout_)) throw CommError("the timeout expired");
  }

  // Each rank reduces its part of the host's sum between the hosts.
  void reduce_all(const at::Tensor& data, const c10d::AllreduceOptions& options) {
    const int64_t count = data.numel();
    const int64_t part_count = (count + per_host_ - 1) / per_host_;
    const bool fits = count == part_count * per_host_;
    at::Tensor whole = data.view({-1});
    if (!fits) {
      whole = at::zeros({part_count * per_host_}, data.options());
      whole.narrow(0, 0, count).copy_(data.view({-1}));
    }
    at::Tensor part = at::empty({part_count}, data.options());
    c10d::ReduceScatterOptions inside;
    inside.reduceOp = options.reduceOp;
    wait(engines_.memory->_reduce_scatter_base(part, whole, inside));
    Tensors parts{part};
    wait(engines_.between->allreduce(parts, options));
    wait(engines_.memory->_allgather_base(whole, part));
    if (!fits) data.view({-1}).copy_(whole.narrow(0, 0, count));
  }

  // A host receives the tensors of other hosts once.
  void gather_all(const at::Tensor& output, const at::Tensor& input) {
    at::Tensor mine = input;
    at::Tensor column = at::empty({num_hosts_, input.numel()}, input.options());
    at::Tensor flat_column = column.view({-1});
    wait(engines_.between->_allgather_base(flat_column, mine));
    at::Tensor table = at::empty({per_host_, num_hosts_, input.numel()}, input.options());
    at::Tensor flat_table = table.view({-1});
    wait(engines_.memory->_allgather_base(flat_table, flat_column));
    const at::Tensor rows = output.view({getSize(), -1});
    for (int rank = 0; rank < getSize(); ++rank) {
      const Place place = places_[static_cast<size_t>(rank)];
      rows[rank].copy_(table[place.local][place.host]);
    }
  }

  void scatter_reduced(const at::Tensor& output, const at::Tensor& input,
                       const c10d::ReduceScatterOptions& options) {
    const at::Tensor rows = input.view({getSize(), -1});
    at::Tensor table = at::empty({per_host_, num_hosts_, output.numel()}, output.options());
    for (int rank = 0; rank < getSize(); ++rank) {
      const Place place = places_[static_cast<size_t>(rank)];
      table[place.local][place.host].copy_(rows[rank]);
    }
    at::Tensor flat_table = table.view({-1});
    at::Tensor column = at::empty({num_hosts_ * output.numel()}, output.options());
    wait(engines_.memory->_reduce_scatter_base(column, flat_table, options));
    // Gloo's own reduce-scatter would all-reduce.
    at::Tensor others = at::empty_like(column);
    at::Tensor sent = column.view(at::kByte);
    at::Tensor received = others.view(at::kByte);
    std::vector<int64_t> shares(static_cast<size_t>(num_hosts_), sent.numel() / num_hosts_);
    wait(engines_.between->alltoall_base(received, sent, shares, shares));
    add_rows(others, output, options.reduceOp);
  }

  void add_rows(const at::Tensor& rows, const at::Tensor& output, const c10d::ReduceOp& op) const {
    std::vector<const std::byte*> inputs;
    for (int64_t host = 0; host < num_hosts_; ++host) {
      inputs.push_back(static_cast<const std::byte*>(rows.data_ptr()) +
                       static_cast<size_t>(host) * output.nbytes());
    }
    const ReduceCall call = call_of(output, op);
    reduce_rows(call.number, call.reduction, static_cast<std::byte*>(output.data_ptr()), inputs,
                call.count);
  }

  const Engines engines_;
  const std::vector<Place> places_;
  std::atomic<std::chrono::milliseconds> timeout_;
  const int64_t num_hosts_;
  const int64_t per_host_;
  WorkThread thread_;  // Last member: it ends first.
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> join_hosts(c10::intrusive_ptr<c10d::Backend> memory,
                                             const std::vector<int>& hosts,
                                             const CommunicatorRequest& request, Engine& between) {
  std::vector<Place> places = places_of(hosts);
  const Place here = places[static_cast<size_t>(request.rank)];
  CommunicatorRequest column = request;
  column.store =
      c10::make_intrusive<c10d::PrefixStore>(concat("hosts/", here.local), request.store);
  column.rank = here.host;
  column.size = request.size / memory->getSize();
  Engines engines{.memory = std::move(memory),
                  .between = between.create(column),
                  .all = between.create(request)};
  return c10::make_intrusive<HostsBackend>(std::move(engines), std::move(places), request);
}

}  // namespace tessera::comm::detail::shm
