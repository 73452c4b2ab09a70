#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/objects.h"
#include "tessera/comm/world.h"
#include "tessera/mesh/device_mesh.h"
#include "tessera/topology/layout.h"

/// OLMo-core's `distributed.utils`. Everything works without a world as well, as if it were one
/// rank. docs/dialects/olmo.md lists where this differs from the page.
namespace tessera {
namespace olmo TSR_API {

using OptionalGroup = std::optional<Group>;

/// What the page passes on to PyTorch as keyword arguments.
struct InitArguments {
  std::optional<int64_t> rank = std::nullopt;
  std::optional<int64_t> world_size = std::nullopt;
};

/// **Collective.** Connects this process to the others, makes the GPU of its local rank the current
/// one and sets the variables that the page names, each only if it is not set. `backend` is nccl if
/// every rank has a GPU of its own and gloo otherwise, unless it is given. In a process that is
/// connected it only sets the variables and the GPU; another back end than the world's is refused.
void init_distributed(const std::optional<std::string>& backend = std::nullopt,
                      std::chrono::milliseconds timeout = std::chrono::seconds(1800),
                      bool shared_filesytem = true, const InitArguments& arguments = {});
/// Waits for the others and lets go of the connection.
void shutdown_distributed();
/// Refuses a distributed process whose LOCAL_RANK, or whose NUM_NODES and LOCAL_WORLD_SIZE, are
/// missing.
void validate_env_vars();

bool is_distributed();
void barrier(const OptionalGroup& group = std::nullopt);
/// -1 where this process is not in the group.
int64_t get_rank(const OptionalGroup& group = std::nullopt);
int64_t get_global_rank(int64_t group_rank, const OptionalGroup& group = std::nullopt);
int64_t get_local_rank();
int64_t get_fs_local_rank(const OptionalGroup& group = std::nullopt);
/// -1 where this process is not in the group.
int64_t get_world_size(const OptionalGroup& group = std::nullopt);
int64_t get_local_world_size();
int64_t get_num_nodes();

/// What values lie on unless a device is given: this process's GPU with nccl, otherwise the CPU.
c10::Device get_default_device();

/// As what a number travels: Python has these three kinds alone.
template <class Number>
  requires std::is_arithmetic_v<Number>
using PythonNumber = std::conditional_t<std::same_as<Number, bool>, bool,
                                        std::conditional_t<std::integral<Number>, int64_t, double>>;

/// The value of global rank `src`; a tensor is overwritten and returned. Numbers keep their
/// precision.
at::Tensor synchronize_value(const at::Tensor& value, c10::Device device = get_default_device(),
                             int64_t src = 0, const OptionalGroup& group = std::nullopt);
bool synchronize_value(bool value, c10::Device device = get_default_device(), int64_t src = 0,
                       const OptionalGroup& group = std::nullopt);
int64_t synchronize_value(int64_t value, c10::Device device = get_default_device(), int64_t src = 0,
                          const OptionalGroup& group = std::nullopt);
double synchronize_value(double value, c10::Device device = get_default_device(), int64_t src = 0,
                         const OptionalGroup& group = std::nullopt);
template <class Number>
PythonNumber<Number> synchronize_value(Number value, c10::Device device = get_default_device(),
                                       int64_t src = 0, const OptionalGroup& group = std::nullopt) {
  return synchronize_value(static_cast<PythonNumber<Number>>(value), device, src, group);
}
/// Rank 0's flag.
bool synchronize_flag(bool flag, c10::Device device = get_default_device(),
                      const OptionalGroup& group = std::nullopt);

/// The reduction of all ranks' values; a tensor is overwritten and returned.
at::Tensor all_reduce_value(const at::Tensor& value, c10::Device device = get_default_device(),
                            ReduceOp op = ReduceOp::kSum,
                            const OptionalGroup& group = std::nullopt);
bool all_reduce_value(bool value, c10::Device device = get_default_device(),
                      ReduceOp op = ReduceOp::kSum, const OptionalGroup& group = std::nullopt);
int64_t all_reduce_value(int64_t value, c10::Device device = get_default_device(),
                         ReduceOp op = ReduceOp::kSum, const OptionalGroup& group = std::nullopt);
double all_reduce_value(double value, c10::Device device = get_default_device(),
                        ReduceOp op = ReduceOp::kSum, const OptionalGroup& group = std::nullopt);
template <class Number>
PythonNumber<Number> all_reduce_value(Number value, c10::Device device = get_default_device(),
                                      ReduceOp op = ReduceOp::kSum,
                                      const OptionalGroup& group = std::nullopt) {
  return all_reduce_value(static_cast<PythonNumber<Number>>(value), device, op, group);
}

/// In group-rank order; shapes may differ.
std::vector<at::Tensor> all_gather(const at::Tensor& tensor,
                                   const OptionalGroup& group = std::nullopt);

/// The coordinates of a global rank, this process's unless given; nothing where it is not in the
/// mesh.
std::optional<Coordinate> get_mesh_coordinates(const Layout& mesh,
                                               std::optional<int64_t> rank = std::nullopt);
std::optional<Coordinate> get_mesh_coordinates(const DeviceMesh& mesh,
                                               std::optional<int64_t> rank = std::nullopt);

bool backend_supports_cuda(const std::optional<std::string>& backend = std::nullopt);
bool backend_supports_cpu(const std::optional<std::string>& backend = std::nullopt);

double get_reduce_divide_factor(int64_t world_size);
std::string get_node_hostname();

/// The group, or the whole world; nothing where the process is not distributed.
OptionalGroup group_or_world(const OptionalGroup& group);
/// A global rank as a rank of the group.
GroupRank source_in(const Group& group, int64_t src);

/// Any type with a JSON conversion.
template <class T>
T broadcast_object(const T& obj, int64_t src = 0, const OptionalGroup& group = std::nullopt) {
  const OptionalGroup target = group_or_world(group);
  return target ? tessera::broadcast_object(obj, source_in(*target, src), *target) : obj;
}

template <class T>
std::vector<T> all_gather_object(const T& obj, const OptionalGroup& group = std::nullopt) {
  const OptionalGroup target = group_or_world(group);
  return target ? tessera::all_gather_object(obj, *target) : std::vector<T>{obj};
}

struct TurnOptions {
  std::optional<int64_t> n =
      std::nullopt;  // At most so many ranks at a time; the number of nodes unless given.
  OptionalGroup process_group = std::nullopt;
  std::optional<int64_t> world_size = std::nullopt;
  std::optional<int64_t> local_rank = std::nullopt;
};

/// In how many turns the ranks come, and in which one this rank does.
struct Turns {
  int64_t count = 1;
  int64_t mine = 0;
};
Turns turns_of(const TurnOptions& options);

/// Calls `f` once on every rank, at most n of them at a time, and returns its result.
template <class Function>
auto do_n_at_a_time(Function&& f, const TurnOptions& options = {}) {
  const Turns turns = turns_of(options);
  using Result = std::invoke_result_t<Function>;
  if constexpr (std::is_void_v<Result>) {
    for (int64_t turn = 0; turn < turns.count; ++turn) {
      if (turn == turns.mine) f();
      barrier(options.process_group);
    }
  } else {
    std::optional<Result> result;
    for (int64_t turn = 0; turn < turns.count; ++turn) {
      if (turn == turns.mine) result = f();
      barrier(options.process_group);
    }
    return *std::move(result);
  }
}

}  // namespace olmo
}  // namespace tessera
