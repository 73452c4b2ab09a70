#include <ATen/core/ivalue.h>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "tessera/comm/fake/factory.h"

namespace tessera::comm::detail::fake {
namespace {

class DoneWork : public c10d::Work {
 public:
  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  bool wait(std::chrono::milliseconds) override { return true; }
};

using Tensors = std::vector<at::Tensor>;
using Handle = c10::intrusive_ptr<c10d::Work>;

// Outputs keep their content: this rank's own values if they share memory with the inputs,
// otherwise what the caller put there.
class FakeBackend : public c10d::Backend {
 public:
  FakeBackend(int rank, int size) : c10d::Backend(rank, size) {}

  const std::string getBackendName() const override { return "fake"; }
  void setTimeout(std::chrono::milliseconds) override {}

  Handle broadcast(Tensors&, const c10d::BroadcastOptions&) override { return done(); }
  Handle allreduce(Tensors&, const c10d::AllreduceOptions&) override { return done(); }
  Handle reduce(Tensors&, const c10d::ReduceOptions&) override { return done(); }
  Handle allgather(std::vector<Tensors>&, Tensors&, const c10d::AllgatherOptions&) override {
    return done();
  }
  Handle gather(std::vector<Tensors>&, Tensors&, const c10d::GatherOptions&) override {
    return done();
  }
  Handle scatter(Tensors&, std::vector<Tensors>&, const c10d::ScatterOptions&) override {
    return done();
  }
  Handle reduce_scatter(Tensors&, std::vector<Tensors>&,
                        const c10d::ReduceScatterOptions&) override {
    return done();
  }
  Handle alltoall_base(at::Tensor&, at::Tensor&, std::vector<int64_t>&, std::vector<int64_t>&,
                       const c10d::AllToAllOptions&) override {
    return done();
  }
  Handle send(Tensors&, int, int) override { return done(); }
  Handle recv(Tensors&, int, int) override { return done(); }
  Handle barrier(const c10d::BarrierOptions&) override { return done(); }
  Handle _allgather_base(at::Tensor&, at::Tensor&, const c10d::AllgatherOptions&) override {
    return done();
  }
  Handle _reduce_scatter_base(at::Tensor&, at::Tensor&,
                              const c10d::ReduceScatterOptions&) override {
    return done();
  }

 private:
  static Handle done() { return c10::make_intrusive<DoneWork>(); }
};

class FakeEngine : public Engine {
 public:
  c10::intrusive_ptr<c10d::Backend> create(const CommunicatorRequest& request) override {
    return c10::make_intrusive<FakeBackend>(request.rank, request.size);
  }
};

}  // namespace

std::unique_ptr<Engine> make_engine(const LocalAddress&) {
  return std::make_unique<FakeEngine>();
}

}  // namespace tessera::comm::detail::fake
