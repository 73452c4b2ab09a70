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

/// What is known of the passes of this process.
struct Passes {
  std::mutex mutex;
  std::list<FailedPassObserver::Callback> observers;
  std::list<const autograd::edge_list*> under_way;
};

// Never destroyed: threads of the engine may outlive everything else.
Passes& passes() {
  static auto* const known = new Passes;
  return *known;
}

class PassUnderWay {
 public:
  explicit PassUnderWay(const autograd::edge_list& roots) {
    const std::lock_guard lock(passes().mutex);
    place_ = passes().under_way.insert(passes().under_way.end(), &roots);
  }
  PassUnderWay(const PassUnderWay&) = delete;
  PassUnderWay& operator=(const PassUnderWay&) = delete;
  ~PassUnderWay() {
    const std::lock_guard lock(passes().mutex);
    passes().under_way.erase(place_);
  }

 private:
  std::list<const autograd::edge_list*>::iterator place_;
};

void tell_observers(const autograd::edge_list& roots, const std::string& error) {
  const Leaves leaves = leaves_of(roots);
  const std::lock_guard lock(passes().mutex);
  for (const auto& callback : passes().observers) callback(leaves, error);
}

/// The engine that there was, and who is told what becomes of its passes.
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
    if (!accumulate_grad) return run();  // autograd::grad() leaves the gradients of leaves alone.
    const PassUnderWay pass(roots);
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
    (void)observed_engine();  // Made while the default engine still is the one before.
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

std::vector<Leaves> leaves_of_passes_under_way() {
  const std::lock_guard lock(passes().mutex);
  std::vector<Leaves> all;
  for (const autograd::edge_list* const roots : passes().under_way) {
    all.push_back(leaves_of(*roots));
  }
  return all;
}

}  // namespace tessera::ddp::detail
