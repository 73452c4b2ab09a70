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

/// OLMo-core's `distributed.utils`. Everything also works without a world, as if it had one rank.
/// docs/dialects/olmo.md lists the differences from the documented API.
namespace tessera {
namespace olmo TSR_API {

/// Nullopt: the whole world.
using OptionalGroup = std::optional<Group>;

/// Arguments that OLMo-core passes to PyTorch as keyword arguments.
struct InitArguments {
  std::optional<int64_t> rank = std::nullopt;        // ConfigError if it is not the launcher's.
  std::optional<int64_t> world_size = std::nullopt;  // ConfigError if it is not the launcher's.
};

/// **Collective.** Connects this process to the others, makes the GPU of its local rank the current
/// one and sets OLMo-core's variables, each only if it is unset. `backend` defaults to nccl if
/// every rank has its own GPU, and to gloo otherwise. In a connected process it only sets the
/// variables and the GPU; ConfigError if `backend` differs from the world's.
void init_distributed(const std::optional<std::string>& backend = std::nullopt,
                      std::chrono::milliseconds timeout = std::chrono::seconds(1800),
                      bool shared_filesytem = true, const InitArguments& arguments = {});
/// Waits for the other ranks and disconnects.
void shutdown_distributed();
/// ConfigError if a distributed process lacks LOCAL_RANK, or both NUM_NODES and LOCAL_WORLD_SIZE.
void validate_env_vars();

/// Whether there is a current world.
bool is_distributed();
/// **Collective.** Waits for all ranks of the group; does nothing without a world.
void barrier(const OptionalGroup& group = std::nullopt);
/// -1 if this process is not in the group.
int64_t get_rank(const OptionalGroup& group = std::nullopt);
/// The global rank of a member of the group; without a group, `group_rank` itself.
int64_t get_global_rank(int64_t group_rank, const OptionalGroup& group = std::nullopt);
/// LOCAL_RANK: the rank of this process on its node. 0 without a world, or if it is unset.
int64_t get_local_rank();
/// FS_LOCAL_RANK: the rank of this process among those that share its file system. If it is unset,
/// get_rank(group) if OLMO_SHARED_FS is 1, and get_local_rank() otherwise. 0 without a world.
int64_t get_fs_local_rank(const OptionalGroup& group = std::nullopt);
/// -1 if this process is not in the group.
int64_t get_world_size(const OptionalGroup& group = std::nullopt);
/// LOCAL_WORLD_SIZE: the ranks per node. 1 without a world; otherwise ConfigError if it is unset.
int64_t get_local_world_size();
/// NUM_NODES, or if it is unset, the world size over LOCAL_WORLD_SIZE. 1 without a world.
int64_t get_num_nodes();

/// The default device for values: this process's GPU with nccl, otherwise the CPU.
c10::Device get_default_device();

/// The type that a number is sent as: Python has only these three.
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
/// The flag of rank 0.
bool synchronize_flag(bool flag, c10::Device device = get_default_device(),
                      const OptionalGroup& group = std::nullopt);

/// The reduction over the values of all ranks; a tensor is overwritten and returned.
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

/// The coordinates of a global rank, by default this process's; nullopt if it is not in the mesh.
std::optional<Coordinate> get_mesh_coordinates(const Layout& mesh,
                                               std::optional<int64_t> rank = std::nullopt);
std::optional<Coordinate> get_mesh_coordinates(const DeviceMesh& mesh,
                                               std::optional<int64_t> rank = std::nullopt);

/// Whether the back end sends CUDA tensors: its name contains nccl. Default: the world's; without a
/// world, whether LibTorch has CUDA.
bool backend_supports_cuda(const std::optional<std::string>& backend = std::nullopt);
/// Whether the back end sends CPU tensors: its name contains gloo or mpi. Default: the world's;
/// true without a world.
bool backend_supports_cpu(const std::optional<std::string>& backend = std::nullopt);

/// The power of two by which gradients are divided before they are summed: about the square root of
/// a world size that is a power of two (4 for 16 ranks), less if it has fewer factors of 2 (2 for
/// 15 ranks). ConfigError if `world_size` is not positive.
double get_reduce_divide_factor(int64_t world_size);
/// Of this process's node; "unknown" if the system does not tell.
std::string get_node_hostname();

/// The group, or else the whole world; nullopt if the process is not distributed.
OptionalGroup group_or_world(const OptionalGroup& group);
/// A global rank as a rank of the group.
GroupRank source_in(const Group& group, int64_t src);

/// **Collective.** The object of global rank `src`, of any type with a JSON conversion.
template <class T>
T broadcast_object(const T& obj, int64_t src = 0, const OptionalGroup& group = std::nullopt) {
  const OptionalGroup target = group_or_world(group);
  return target ? tessera::broadcast_object(obj, source_in(*target, src), *target) : obj;
}

/// **Collective.** The objects of all ranks, in group-rank order.
template <class T>
std::vector<T> all_gather_object(const T& obj, const OptionalGroup& group = std::nullopt) {
  const OptionalGroup target = group_or_world(group);
  return target ? tessera::all_gather_object(obj, *target) : std::vector<T>{obj};
}

/// How ranks take turns.
struct TurnOptions {
  /// Maximum number of ranks at a time; default: the number of nodes.
  std::optional<int64_t> n = std::nullopt;
  OptionalGroup process_group = std::nullopt;        // The ranks that take turns.
  std::optional<int64_t> world_size = std::nullopt;  // Default: the size of the group.
  std::optional<int64_t> local_rank = std::nullopt;  // Default: this rank in the group.
};

/// When a rank calls the function.
struct Turns {
  int64_t count = 1;  // Of the whole group.
  int64_t mine = 0;   // This rank's turn, from 0.
};
/// Rank r takes turn r mod count. ConfigError if `n` is not positive.
Turns turns_of(const TurnOptions& options);

/// Calls `f` once on every rank, on at most n ranks at a time, and returns its result.
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
