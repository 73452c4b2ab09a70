#include "tessera/parallel/ddp/internal/backward_passes.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <mutex>
#include <unordered_set>
#include <utility>

namespace tessera::ddp::detail {
namespace {

namespace autograd = torch::autograd;

using NodePointer =
    decltype(autograd::Edge::function);  // LibTorch 2.13 has another kind than 2.11.

Leaves leaves_of(const autograd::edge_list& roots) {
  Leaves leaves;
  std::unordered_set<const autograd::Node*> seen;
  std::vector<autograd::Node*> open;
  const auto visit = [&](const autograd::Edge& edge) {
    autograd::Node* const node = edge.function.get();
    if (node != nullptr && seen.insert(node).second) open.push_back(node);
  };
  for (const autograd::Edge& edge : roots) visit(edge);
  while (!open.empty()) {
    autograd::Node* const node = open.back();
    open.pop_back();
    const auto* const leaf = dynamic_cast<const autograd::AccumulateGrad*>(node);
    if (leaf != nullptr) leaves.push_back(leaf->variable);
    for (const autograd::Edge& edge : node->next_edges()) visit(edge);
  }
  return leaves;
}

/// The observers and the backward passes in flight of this process.
struct Passes {
  std::mutex mutex;
  std::list<FailedPassObserver::Callback> observers;
  std::list<const autograd::edge_list*> in_flight;
};

// Never destroyed: the engine's threads may outlive static objects.
Passes& passes() {
  static auto* const known = new Passes;
  return *known;
}

class PassInFlight {
 public:
  explicit PassInFlight(const autograd::edge_list& roots) {
    const std::lock_guard lock(passes().mutex);
    place_ = passes().in_flight.insert(passes().in_flight.end(), &roots);
  }
  PassInFlight(const PassInFlight&) = delete;
  PassInFlight& operator=(const PassInFlight&) = delete;
  ~PassInFlight() {
    const std::lock_guard lock(passes().mutex);
    passes().in_flight.erase(place_);
  }

 private:
  std::list<const autograd::edge_list*>::iterator place_;
};

void tell_observers(const autograd::edge_list& roots, const std::string& error) {
  const Leaves leaves = leaves_of(roots);
  const std::lock_guard lock(passes().mutex);
  for (const auto& callback : passes().observers) callback(leaves, error);
}

/// Forwards to the original engine and reports failed passes to the observers.
class ObservedEngine : public autograd::Engine {
 public:
  explicit ObservedEngine(autograd::Engine& engine) : engine_(engine) {}

  autograd::variable_list execute(const autograd::edge_list& roots,
                                  const autograd::variable_list& inputs, bool keep_graph,
                                  bool create_graph, bool accumulate_grad,
                                  const autograd::edge_list& outputs) override {
    const auto run = [&] {
      return engine_.execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
    };
    if (!accumulate_grad) return run();  // autograd::grad() does not change the leaves' gradients.
    const PassInFlight pass(roots);
    try {
      return run();
    } catch (const c10::Error& error) {
      tell_observers(roots, error.what_without_backtrace());
      throw;
    } catch (const std::exception& error) {
      tell_observers(roots, error.what());
      throw;
    } catch (...) {
      tell_observers(roots, "an unknown exception");
      throw;
    }
  }
  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
      const std::shared_ptr<autograd::GraphTask>& task, NodePointer root,
      autograd::InputBuffer&& input) override {
    return engine_.execute_with_graph_task(task, std::move(root), std::move(input));
  }
  std::unique_ptr<autograd::AnomalyMetadata> make_anomaly_metadata() override {
    return engine_.make_anomaly_metadata();
  }
  std::unique_ptr<autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return engine_.get_default_saved_variable_hooks();
  }

 private:
  autograd::Engine& engine_;
};

autograd::Engine& observed_engine() {
  static auto* const engine = new ObservedEngine(autograd::Engine::get_default_engine());
  return *engine;
}

void observe_engine() {
  static std::once_flag once;
  std::call_once(once, [] {
    (void)observed_engine();  // Made while the original engine is still the default.
    autograd::set_default_engine_stub(observed_engine);
  });
}

}  // namespace

FailedPassObserver::FailedPassObserver(Callback callback) {
  observe_engine();
  const std::lock_guard lock(passes().mutex);
  place_ = passes().observers.insert(passes().observers.end(), std::move(callback));
}

FailedPassObserver::~FailedPassObserver() {
  const std::lock_guard lock(passes().mutex);
  passes().observers.erase(place_);
}

std::vector<Leaves> leaves_of_passes_in_flight() {
  const std::lock_guard lock(passes().mutex);
  std::vector<Leaves> all;
  for (const autograd::edge_list* const roots : passes().in_flight) {
    all.push_back(leaves_of(*roots));
  }
  return all;
}

}  // namespace tessera::ddp::detail
