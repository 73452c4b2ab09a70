// Sizes, ranks, overrides, stages and neighbours.
#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/dialect/megatron/state.h"

namespace tessera::megatron {
namespace {

void set(std::optional<int64_t>& value, std::optional<int64_t> given, std::string_view what) {
  TSR_CHECK(given.value_or(0) >= 0, what, " ", given.value_or(0),
            " is negative; give a number from 0, or nothing to take it back");
  value = given;
}

int64_t first_rank(const Group& group) {
  return group.ranks().front().value;
}

void check_stage(const std::optional<int64_t>& vp_stage) {
  TSR_CHECK(vp_stage,
            "vp_stage is missing; an interleaved pipeline has several stages per rank, so "
            "pass one, or ignore_virtual = true");
}

}  // namespace

void ParallelState::set_tensor_model_parallel_world_size(std::optional<int64_t> world_size) {
  set(tensor_.size, world_size, "tensor-parallel size");
}
void ParallelState::set_tensor_model_parallel_rank(std::optional<int64_t> rank) {
  set(tensor_.rank, rank, "tensor-parallel rank");
}
void ParallelState::set_pipeline_model_parallel_world_size(std::optional<int64_t> world_size) {
  set(pipeline_.size, world_size, "pipeline-parallel size");
}
void ParallelState::set_pipeline_model_parallel_rank(std::optional<int64_t> rank) {
  set(pipeline_.rank, rank, "pipeline-parallel rank");
}
void ParallelState::set_data_parallel_rank(std::optional<int64_t> rank) {
  set(data_.rank, rank, "data-parallel rank");
}
void ParallelState::set_expert_model_parallel_world_size(std::optional<int64_t> world_size) {
  set(expert_model_.size, world_size, "expert-parallel size");
}
void ParallelState::set_expert_model_parallel_rank(std::optional<int64_t> rank) {
  set(expert_model_.rank, rank, "expert-parallel rank");
}
void ParallelState::set_expert_tensor_parallel_world_size(std::optional<int64_t> world_size) {
  set(expert_tensor_.size, world_size, "expert tensor-parallel size");
}
void ParallelState::set_expert_tensor_parallel_rank(std::optional<int64_t> rank) {
  set(expert_tensor_.rank, rank, "expert tensor-parallel rank");
}
void ParallelState::set_virtual_pipeline_model_parallel_world_size(
    std::optional<int64_t> world_size) {
  set(virtual_pipeline_.size, world_size, "virtual pipeline size");
}
void ParallelState::set_virtual_pipeline_model_parallel_rank(std::optional<int64_t> rank) {
  set(virtual_pipeline_.rank, rank, "virtual pipeline rank");
}

int64_t ParallelState::get_tensor_model_parallel_world_size() const {
  if (tensor_.size) return *tensor_.size;
  return get_tensor_model_parallel_group().size();
}
int64_t ParallelState::get_tensor_model_parallel_rank() const {
  if (tensor_.rank) return *tensor_.rank;
  return get_tensor_model_parallel_group().rank().value;
}
int64_t ParallelState::get_pipeline_model_parallel_world_size() const {
  if (pipeline_.size) return *pipeline_.size;
  return get_pipeline_model_parallel_group().size();
}
int64_t ParallelState::get_pipeline_model_parallel_rank() const {
  if (pipeline_.rank) return *pipeline_.rank;
  return get_pipeline_model_parallel_group().rank().value;
}

int64_t ParallelState::get_data_parallel_world_size(bool with_context_parallel,
                                                    bool partial_data_parallel) const {
  if (!world_) return 0;
  return get_data_parallel_group(with_context_parallel, partial_data_parallel).size();
}
int64_t ParallelState::get_data_parallel_rank(bool with_context_parallel,
                                              bool partial_data_parallel) const {
  if (data_.rank) return *data_.rank;
  if (!world_) return 0;
  return get_data_parallel_group(with_context_parallel, partial_data_parallel).rank().value;
}

int64_t ParallelState::get_context_parallel_world_size() const {
  return !world_ ? 0 : get_context_parallel_group().size();
}
int64_t ParallelState::get_context_parallel_rank() const {
  return !world_ ? 0 : get_context_parallel_group().rank().value;
}
int64_t ParallelState::get_tensor_and_context_parallel_world_size() const {
  return !world_ ? 0 : get_tensor_and_context_parallel_group().size();
}
int64_t ParallelState::get_tensor_and_context_parallel_rank() const {
  return !world_ ? 0 : get_tensor_and_context_parallel_group().rank().value;
}

int64_t ParallelState::get_expert_model_parallel_world_size() const {
  if (expert_model_.size) return *expert_model_.size;
  if (!world_) return 0;
  return get_expert_model_parallel_group().size();
}
int64_t ParallelState::get_expert_model_parallel_rank() const {
  if (expert_model_.rank) return *expert_model_.rank;
  if (!world_) return 0;
  return get_expert_model_parallel_group().rank().value;
}

std::optional<int64_t> ParallelState::get_expert_tensor_parallel_world_size() const {
  if (expert_tensor_.size) return expert_tensor_.size;
  const std::optional<Group> group = get_expert_tensor_parallel_group(false);
  return group ? group->size() : tensor_.size;
}
std::optional<int64_t> ParallelState::get_expert_tensor_parallel_rank() const {
  if (expert_tensor_.rank) return expert_tensor_.rank;
  const std::optional<Group> group = get_expert_tensor_parallel_group(false);
  return group ? group->rank().value : tensor_.rank;
}

int64_t ParallelState::get_expert_tensor_and_model_parallel_world_size() const {
  return !world_ ? 0 : get_expert_tensor_and_model_parallel_group().size();
}
int64_t ParallelState::get_expert_tensor_and_model_parallel_rank() const {
  return !world_ ? 0 : get_expert_tensor_and_model_parallel_group().rank().value;
}
int64_t ParallelState::get_expert_data_parallel_world_size(
    bool partial_expert_data_parallel) const {
  if (!world_) return 0;
  return get_expert_data_parallel_group(true, partial_expert_data_parallel)->size();
}
int64_t ParallelState::get_expert_data_parallel_rank(bool partial_expert_data_parallel) const {
  if (!world_) return 0;
  return get_expert_data_parallel_group(true, partial_expert_data_parallel)->rank().value;
}

std::optional<int64_t> ParallelState::get_virtual_pipeline_model_parallel_world_size() const {
  return virtual_pipeline_.size;
}
std::optional<int64_t> ParallelState::get_virtual_pipeline_model_parallel_rank() const {
  return virtual_pipeline_.rank;
}

bool ParallelState::is_pipeline_first_stage(bool ignore_virtual,
                                            std::optional<int64_t> vp_stage) const {
  if (!ignore_virtual && virtual_pipeline_.size) {
    check_stage(vp_stage);
    if (*vp_stage != 0) return false;
  }
  return get_pipeline_model_parallel_rank() == 0;
}

bool ParallelState::is_pipeline_last_stage(bool ignore_virtual,
                                           std::optional<int64_t> vp_stage) const {
  if (!ignore_virtual && virtual_pipeline_.size) {
    check_stage(vp_stage);
    if (*vp_stage != *virtual_pipeline_.size - 1) return false;
  }
  return get_pipeline_model_parallel_rank() == get_pipeline_model_parallel_world_size() - 1;
}

// The callback's order of ranks decides: the first one holds the embeddings of the first virtual
// stage, the last one those of the last virtual stage.
bool ParallelState::is_rank_in_embedding_group(bool ignore_virtual,
                                               std::optional<int64_t> vp_stage) const {
  const int64_t rank = world().rank().value;
  if (embedding_ranks_.empty()) return false;
  if (ignore_virtual) return true;
  if (rank == embedding_ranks_.front()) return is_pipeline_first_stage(false, vp_stage);
  if (rank == embedding_ranks_.back()) return is_pipeline_last_stage(false, vp_stage);
  return true;
}

bool ParallelState::is_rank_in_position_embedding_group() const {
  (void)world();
  return get_position_embedding_group(false).has_value();
}

int64_t ParallelState::get_tensor_model_parallel_src_rank() const {
  return first_rank(get_tensor_model_parallel_group());
}
int64_t ParallelState::get_model_parallel_src_rank() const {
  return first_rank(get_model_parallel_group());
}
int64_t ParallelState::get_data_parallel_src_rank(bool with_context_parallel) const {
  return first_rank(get_data_parallel_group(with_context_parallel));
}
int64_t ParallelState::get_expert_model_parallel_src_rank() const {
  return first_rank(get_expert_model_parallel_group());
}

// The global rank of a stage of the real pipeline. An index from overrides may be out of range.
int64_t ParallelState::pipeline_rank(int64_t index) const {
  const Group group = get_pipeline_model_parallel_group();
  TSR_CHECK(0 <= index && index < group.size(), "stage ", index, " is not one of the ",
            group.size(),
            " of the pipeline; take back what set_pipeline_model_parallel_world_size ",
            "and set_pipeline_model_parallel_rank have set");
  return group.global_rank(GroupRank{index}).value;
}

int64_t ParallelState::pipeline_neighbour(int64_t distance) const {
  (void)realized();  // Overrides alone do not make a pipeline.
  const int64_t size = get_pipeline_model_parallel_world_size();
  TSR_CHECK(size > 0,
            "a pipeline of 0 stages was set, in which nobody has a neighbour; take it "
            "back by set_pipeline_model_parallel_world_size");
  return pipeline_rank((get_pipeline_model_parallel_rank() + distance + size) % size);
}

int64_t ParallelState::get_pipeline_model_parallel_first_rank() const {
  return pipeline_rank(0);
}
int64_t ParallelState::get_pipeline_model_parallel_last_rank() const {
  (void)realized();
  return pipeline_rank(get_pipeline_model_parallel_world_size() - 1);
}
int64_t ParallelState::get_pipeline_model_parallel_next_rank() const {
  return pipeline_neighbour(1);
}
int64_t ParallelState::get_pipeline_model_parallel_prev_rank() const {
  return pipeline_neighbour(-1);
}

std::string ParallelState::get_all_ranks() const {
  const std::vector<int64_t> ranks{get_tensor_model_parallel_rank(), get_data_parallel_rank(),
                                   get_context_parallel_rank(), get_pipeline_model_parallel_rank(),
                                   get_expert_model_parallel_rank()};
  return join(ranks, "_");
}

}  // namespace tessera::megatron
