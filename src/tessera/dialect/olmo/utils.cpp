#include "tessera/dialect/olmo/utils.h"

#include <ATen/ATen.h>
#include <arpa/inet.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "tessera/base/check.h"
#include "tessera/base/machine.h"
#include "tessera/dialect/olmo/clusters.h"

namespace tessera::olmo {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

void set_if_unset(const std::string& name, const std::string& value) {
  setenv(name.c_str(), value.c_str(), 0);
}

int64_t number(const char* name, const std::string& text) {
  const auto value = to_integer(text);
  TSR_CHECK(value.has_value(), name, "='", text, "' is not a whole number; set it to digits alone");
  return *value;
}

// An empty variable counts as unset.
std::optional<int64_t> optional_number(const char* name) {
  const auto text = variable(name);
  return text && !text->empty() ? std::optional(number(name, *text)) : std::nullopt;
}

int64_t required_number(const char* name) {
  const auto text = variable(name);
  TSR_CHECK(text.has_value(), name, " is not set; the launcher sets it, or set it by hand");
  return number(name, *text);
}

int free_port() {
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  bind(probe, reinterpret_cast<sockaddr*>(&address), length);
  getsockname(probe, reinterpret_cast<sockaddr*>(&address), &length);
  close(probe);
  return ntohs(address.sin_port);
}

// Sets the variables that OLMo-core reads to the launcher's values.
void set_launch_variables(const LaunchInfo& launch) {
  const auto set = [](const char* name, int64_t value) {
    set_if_unset(name, std::to_string(value));
  };
  if (launch.launcher == "torchrun" && launch.world_size > 1) return;  // torchrun has set them.
  set("RANK", launch.rank);
  set("WORLD_SIZE", launch.world_size);
  set("LOCAL_RANK", launch.local_rank);
  set("LOCAL_WORLD_SIZE", launch.local_world_size);
  set("NUM_NODES", launch.world_size / launch.local_world_size);
  set_if_unset("MASTER_ADDR", launch.master_addr);
  set("MASTER_PORT", launch.master_port != 0 ? launch.master_port : free_port());
}

Backend backend_of(const std::optional<std::string>& name) {
  if (!name) return Backend::kAuto;
  if (*name == "fake") return Backend::kFake;
  if (name->find("nccl") != std::string::npos) return Backend::kNccl;
  if (name->find("gloo") != std::string::npos) return Backend::kGloo;
  throw ConfigError(
      concat("backend '", *name, "' is unknown; choose gloo, nccl, cpu:gloo,cuda:nccl or fake"));
}

// The world that the environment describes; arguments must not contradict it.
LaunchInfo launch_of(const InitArguments& arguments) {
  const LaunchInfo launch = read_launch_info(process_environment());
  const auto agree = [](std::optional<int64_t> given, const char* name, int64_t value) {
    TSR_CHECK(!given || value == *given, "the argument ", given.value_or(0), " contradicts ", name,
              ", which is ", value,
              "; set the launcher's variables, from which everything else reads them, too");
  };
  agree(arguments.world_size, "WORLD_SIZE", launch.world_size);
  agree(arguments.rank, "RANK", launch.rank);
  return launch;
}

// The checks of validate_env_vars, for a world that is about to be made.
void check_variables() {
  TSR_CHECK(variable("LOCAL_RANK"),
            "LOCAL_RANK is not set; the launcher sets it, or set it to this process's number on "
            "its host");
  TSR_CHECK(variable("NUM_NODES") || variable("LOCAL_WORLD_SIZE"),
            "neither NUM_NODES nor LOCAL_WORLD_SIZE is set; set one of them");
}

template <class Value>
at::Tensor scalar(Value value, c10::Device device, at::ScalarType dtype) {
  return at::full({1}, value, at::TensorOptions(dtype).device(device));
}

at::Tensor synchronized(const at::Tensor& tensor, int64_t src, const OptionalGroup& group) {
  const OptionalGroup target = group_or_world(group);
  if (!target) return tensor;
  return broadcast(tensor, source_in(*target, src), *target).wait();
}

at::Tensor all_reduced(const at::Tensor& tensor, ReduceOp op, const OptionalGroup& group) {
  const OptionalGroup target = group_or_world(group);
  return target ? all_reduce(tensor, *target, op).wait() : tensor;
}

}  // namespace

void init_distributed(const std::optional<std::string>& backend, std::chrono::milliseconds timeout,
                      bool shared_filesytem, const InitArguments& arguments) {
  const Backend wanted = backend_of(backend);
  const LaunchInfo launch = launch_of(arguments);
  set_launch_variables(launch);
  check_variables();  // Checks first, so that an error leaves no world behind.
  set_if_unset("TORCH_NCCL_AVOID_RECORD_STREAMS", "1");
  set_if_unset("TORCH_DIST_INIT_BARRIER", "1");
  if (shared_filesytem) set_if_unset("OLMO_SHARED_FS", "1");
  for (const auto& [name, value] : cluster_variables(timeout)) set_if_unset(name, value);
  World* const world = World::current();
  TSR_CHECK(world == nullptr || wanted == Backend::kAuto || world->backend() == wanted,
            "the process is connected by ", to_string(world->backend()), ", not by ",
            to_string(wanted), "; ask for the same backend, or shut down first");
  if (world == nullptr) {
    World::make_current(World::connect(launch, {.backend = wanted, .timeout = timeout}));
  } else if (world->device().is_cuda()) {  // The program may have changed the current GPU.
    c10::impl::VirtualGuardImpl(c10::kCUDA).setDevice(world->device());
  }
}

void shutdown_distributed() {
  if (World* const world = World::current()) world->close();
  World::clear_current();
}

void validate_env_vars() {
  if (is_distributed()) check_variables();
}

bool is_distributed() {
  return World::current() != nullptr;
}

OptionalGroup group_or_world(const OptionalGroup& group) {
  if (!is_distributed()) return std::nullopt;
  return group ? group : World::current()->group();
}

GroupRank source_in(const Group& group, int64_t src) {
  const auto rank = group.group_rank(GlobalRank{src});
  TSR_CHECK(rank.has_value(), "global rank ", src, " is not in group ", group.name(), " of ranks ",
            join(group.ranks(), ","), "; give src as a global rank of the group");
  return *rank;
}

void barrier(const OptionalGroup& group) {
  const OptionalGroup target = group_or_world(group);
  if (target) tessera::barrier(*target);
}

int64_t get_rank(const OptionalGroup& group) {
  const OptionalGroup target = group_or_world(group);
  if (!target) return 0;
  return target->is_member() ? target->rank().value : -1;
}

int64_t get_global_rank(int64_t group_rank, const OptionalGroup& group) {
  return group && is_distributed() ? group->global_rank(GroupRank{group_rank}).value : group_rank;
}

int64_t get_local_rank() {
  return is_distributed() ? optional_number("LOCAL_RANK").value_or(0) : 0;
}

int64_t get_fs_local_rank(const OptionalGroup& group) {
  if (!is_distributed()) return 0;
  if (const auto rank = optional_number("FS_LOCAL_RANK")) return *rank;
  return variable("OLMO_SHARED_FS") == "1" ? get_rank(group) : get_local_rank();
}

int64_t get_world_size(const OptionalGroup& group) {
  const OptionalGroup target = group_or_world(group);
  if (!target) return 1;
  return target->is_member() ? target->size() : -1;
}

int64_t get_local_world_size() {
  return is_distributed() ? required_number("LOCAL_WORLD_SIZE") : 1;
}

int64_t get_num_nodes() {
  if (!is_distributed()) return 1;
  if (const auto text = variable("NUM_NODES")) return number("NUM_NODES", *text);
  const int64_t local = get_local_world_size();
  TSR_CHECK(local > 0, "LOCAL_WORLD_SIZE=", local, " is not positive; a host has at least 1 rank");
  return get_world_size() / local;
}

c10::Device get_default_device() {
  if (is_distributed()) return World::current()->group().device();
  return at::hasCUDA() ? at::kCUDA : at::kCPU;
}

at::Tensor synchronize_value(const at::Tensor& value, c10::Device device, int64_t src,
                             const OptionalGroup& group) {
  return synchronized(value.to(device), src, group);
}
bool synchronize_value(bool value, c10::Device device, int64_t src, const OptionalGroup& group) {
  return synchronized(scalar(value, device, at::kBool), src, group).item<bool>();
}
int64_t synchronize_value(int64_t value, c10::Device device, int64_t src,
                          const OptionalGroup& group) {
  return synchronized(scalar(value, device, at::kLong), src, group).item<int64_t>();
}
double synchronize_value(double value, c10::Device device, int64_t src,
                         const OptionalGroup& group) {
  return synchronized(scalar(value, device, at::kDouble), src, group).item<double>();
}
bool synchronize_flag(bool flag, c10::Device device, const OptionalGroup& group) {
  return synchronize_value(flag, device, 0, group);
}

at::Tensor all_reduce_value(const at::Tensor& value, c10::Device device, ReduceOp op,
                            const OptionalGroup& group) {
  return all_reduced(value.to(device), op, group);
}
bool all_reduce_value(bool value, c10::Device device, ReduceOp op, const OptionalGroup& group) {
  return all_reduced(scalar(value, device, at::kBool), op, group).item<bool>();
}
int64_t all_reduce_value(int64_t value, c10::Device device, ReduceOp op,
                         const OptionalGroup& group) {
  return all_reduced(scalar(value, device, at::kLong), op, group).item<int64_t>();
}
double all_reduce_value(double value, c10::Device device, ReduceOp op, const OptionalGroup& group) {
  return all_reduced(scalar(value, device, at::kDouble), op, group).item<double>();
}

std::vector<at::Tensor> all_gather(const at::Tensor& tensor, const OptionalGroup& group) {
  const OptionalGroup target = group_or_world(group);
  return target ? all_gather_uneven(tensor, *target).wait() : std::vector<at::Tensor>{tensor};
}

std::optional<Coordinate> get_mesh_coordinates(const Layout& mesh, std::optional<int64_t> rank) {
  const GlobalRank wanted{rank.value_or(get_rank())};
  return mesh.contains(wanted) ? std::optional(mesh.coordinate(wanted)) : std::nullopt;
}
std::optional<Coordinate> get_mesh_coordinates(const DeviceMesh& mesh,
                                               std::optional<int64_t> rank) {
  return get_mesh_coordinates(mesh.layout(), rank.value_or(mesh.get_rank().value));
}

bool backend_supports_cuda(const std::optional<std::string>& backend) {
  if (backend) return backend->find("nccl") != std::string::npos;
  return is_distributed() ? World::current()->backend() == Backend::kNccl : at::hasCUDA();
}

bool backend_supports_cpu(const std::optional<std::string>& backend) {
  if (backend)
    return backend->find("gloo") != std::string::npos || backend->find("mpi") != std::string::npos;
  return !is_distributed() || World::current()->backend() == Backend::kGloo;
}

double get_reduce_divide_factor(int64_t world_size) {
  TSR_CHECK(world_size > 0, "world size ", world_size, " is not positive");
  int64_t factor = 1;
  while (world_size % factor == 0 && world_size / factor > factor) factor *= 2;
  return static_cast<double>(factor);
}

std::string get_node_hostname() {
  return host_name();
}

Turns turns_of(const TurnOptions& options) {
  const int64_t world_size = options.world_size.value_or(get_world_size(options.process_group));
  const int64_t rank = options.local_rank.value_or(get_rank(options.process_group));
  const int64_t n = options.n.value_or(get_num_nodes());
  TSR_CHECK(n > 0, n, " ranks at a time were asked for; let at least 1 run");
  const int64_t count = (world_size + n - 1) / n;
  return {count, rank % count};
}

}  // namespace tessera::olmo
