// The lifetime of the state: initialise, destroy, buffers.
#include "tessera/dialect/megatron/state.h"

#include <ATen/Context.h>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"
#include "tessera/dialect/internal/arguments.h"
#include "tessera/dialect/megatron/memory_buffer.h"

namespace tessera::megatron {
namespace {

// The device of the training tensors.
c10::Device device_of(const std::optional<WorldHandle>& world) {
  if (world) return world->backend() == Backend::kNccl ? world->device() : c10::kCPU;
  return at::hasCUDA() ? c10::Device(c10::kCUDA, 0) : c10::kCPU;
}

template <class Buffer>
Buffer& need_buffer(const std::unique_ptr<Buffer>& buffer, const char* setter) {
  if (!buffer) throw StateError(concat("there is no such buffer; call ", setter, " first"));
  return *buffer;
}

void check_free(bool taken, const char* destroyer) {
  if (taken) throw StateError(concat("there is such a buffer already; call ", destroyer, " first"));
}

}  // namespace

ParallelState::ParallelState() = default;
ParallelState::ParallelState(const WorldHandle& world) : world_(world) {}
ParallelState::ParallelState(const WorldHandle& world, ParallelState before)
    : ParallelState(std::move(before)) {
  world_ = world;
}
ParallelState::ParallelState(ParallelState&&) noexcept = default;
ParallelState& ParallelState::operator=(ParallelState&&) noexcept = default;
ParallelState::~ParallelState() = default;

const WorldHandle& ParallelState::world() const {
  if (!world_) {
    throw StateError("this process has no current world; call World::make_current first");
  }
  return *world_;
}

const Plan& ParallelState::plan() const {
  return realized().plan();
}

void ParallelState::check_can_initialize() const {
  if (realized_) {
    throw StateError(
        "the model-parallel groups exist already; call destroy_model_parallel before "
        "initialize_model_parallel");
  }
  check_free(buffer_ != nullptr, "destroy_global_memory_buffer");
}

void ParallelState::initialize_model_parallel(const MegatronConfig& config) {
  const WorldHandle& world = this->world();
  std::optional<Plan> plan;
  // Reading a file or calling a callback may fail on one rank alone.
  check_together(world, "the configuration of initialize_model_parallel", [&] {
    check_can_initialize();
    plan = megatron_plan(world.size(), config);
  });
  dialect::detail::check_same_arguments(world.group(), "initialize_model_parallel",
                                        dialect::detail::lines_of(config));
  realized_ = realize(*plan, world);
  for (const Group& group : realized_->groups()) groups_.push_back(group);
  keep_embedding_ranks();
  if (config.virtual_pipeline_model_parallel_size) {
    virtual_pipeline_ = {config.virtual_pipeline_model_parallel_size, 0};
  }
  _set_global_memory_buffer();
}

void ParallelState::keep_embedding_ranks() {
  const GroupFamily& family = plan().spec("EMBEDDING_GROUP").groups;
  embedding_ranks_.clear();
  if (!get_embedding_group(false)) return;
  for (const GlobalRank rank : family.listed(*family.index_of(world().rank()))) {
    embedding_ranks_.push_back(rank.value);
  }
}

void ParallelState::destroy_model_parallel() {
  *this = world_ ? ParallelState(*world_) : ParallelState();
}

bool ParallelState::is_initialized() const {
  return realized_.has_value();
}
bool ParallelState::is_unitialized() const {
  return !is_initialized();
}
bool ParallelState::model_parallel_is_initialized() const {
  return is_initialized();
}

void ParallelState::_set_global_memory_buffer() {
  check_free(buffer_ != nullptr, "destroy_global_memory_buffer");
  buffer_ = std::make_unique<GlobalMemoryBuffer>(device_of(world_));
}
GlobalMemoryBuffer& ParallelState::get_global_memory_buffer() const {
  return need_buffer(buffer_, "_set_global_memory_buffer");
}
void ParallelState::destroy_global_memory_buffer() {
  buffer_.reset();
}

void ParallelState::_set_global_symmetric_memory_buffer() {
  (void)get_tensor_model_parallel_group();
  check_free(symmetric_buffer_ != nullptr, "destroy_global_symmetric_memory_buffer");
  symmetric_buffer_ = std::make_unique<GlobalSymmetricMemoryBuffer>();
}
GlobalSymmetricMemoryBuffer& ParallelState::get_global_symmetric_memory_buffer() const {
  return need_buffer(symmetric_buffer_, "_set_global_symmetric_memory_buffer");
}
void ParallelState::destroy_global_symmetric_memory_buffer() {
  symmetric_buffer_.reset();
}

}  // namespace tessera::megatron
