#include "tessera/tensor/sharded_flat_tensor.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"
#include "tessera/tensor/internal/check_alike.h"
#include "tessera/tensor/internal/flat_chunks.h"
#include "tessera/tensor/storage.h"

namespace tessera {

using namespace tensor::detail;

struct ShardedFlatTensor::State {
  at::Tensor local;
  at::Tensor whole;  // The full tensor; while sharded without memory, or undefined.
  at::Tensor grad;   // Gradient of a full tensor that no longer exists.
  bool unsharded = false;
  bool owns_whole = false;    // Whether this may free its memory.
  bool is_parameter = false;  // For printing.
  std::optional<ShardingSpec> spec;
  std::optional<Group> group;

  const FlatSpans& spans() const {
    return spec->unsharded_flattened_offsets()[static_cast<size_t>(group->rank().value)];
  }

  // Drops the full tensor, but keeps its gradient.
  void drop_whole() {
    if (whole.defined() && whole.grad().defined()) grad = whole.grad();
    whole.reset();
    owns_whole = false;
  }

  void take_whole(const at::Tensor& contents, bool owns) {
    drop_whole();
    whole = contents.detach();
    if (local.requires_grad()) whole.requires_grad_();
    if (grad.defined() && grad.sizes() == whole.sizes() && grad.dtype() == whole.dtype()) {
      whole.mutable_grad() = std::exchange(grad, {});
    }
    owns_whole = owns;
  }
};

namespace {

constexpr GroupRank kFirst{0};

std::string shape_text(at::IntArrayRef shape) {
  return concat("(", join(shape, ","), ")");
}

void check_spec(const ShardingSpec& spec, const Group& group) {
  TSR_CHECK(spec.num_ranks() == group.size(), "the sharding spec ", spec, " has spans for ",
            spec.num_ranks(), " ranks, but group ", group.name(), " has ", group.size(),
            "; pass spans for each rank");
}

at::Tensor padded(const at::Tensor& shard, int64_t size) {
  if (shard.numel() == size) return shard;
  at::Tensor row = shard.new_zeros({size});
  row.narrow(0, 0, shard.numel()).copy_(shard);
  return row;
}

// This rank's chunk of rank 0's tensor. On other ranks only the dtype of `flat` is used.
at::Tensor chunk_of_first(const at::Tensor& flat, const ShardingSpec& spec, const Group& group) {
  const at::Tensor mine = flat.new_empty({spec.largest_shard()});
  const std::vector<at::Tensor> chunks =
      group.rank() == kFirst ? padded_chunks(flat, spec) : std::vector<at::Tensor>{};
  if (mine.numel() > 0) (void)scatter(mine, chunks, kFirst, group).wait();
  const int64_t numel = spec.sharded_numels()[static_cast<size_t>(group.rank().value)];
  return mine.narrow(0, 0, numel).clone();
}

at::Tensor own_chunk(const at::Tensor& whole, const ShardingSpec& spec, const Group& group,
                     bool synchronize) {
  const at::Tensor flat = whole.detach().reshape({-1});
  if (synchronize) return chunk_of_first(flat, spec, group);
  const auto rank = static_cast<size_t>(group.rank().value);
  return flat_chunk(flat, spec.unsharded_flattened_offsets()[rank]).clone();
}

ShardingSpec checked_spec(const at::Tensor& tensor, const Group& group,
                          const FlatShardOptions& options) {
  TSR_CHECK(tensor.defined(), "shard got an undefined tensor; pass one with a shape");
  if (!options.sharding_spec) return ShardingSpec::even(tensor.sizes().vec(), group.size());
  const ShardingSpec& spec = *options.sharding_spec;
  check_spec(spec, group);
  TSR_CHECK(tensor.sizes() == at::IntArrayRef(spec.unsharded_shape()), "a tensor of shape ",
            shape_text(tensor.sizes()), " does not fit the sharding spec ", spec,
            "; the shapes must be equal");
  return spec;
}

// The spec; if the ranks synchronize, all have checked it.
ShardingSpec agreed_spec(const at::Tensor& tensor, const Group& group,
                         const FlatShardOptions& options) {
  if (!options.synchronize) return checked_spec(tensor, group, options);
  std::optional<ShardingSpec> spec;
  const std::exception_ptr error = error_of([&] { spec = checked_spec(tensor, group, options); });
  check_alike({&group, 1}, "shard",
              spec ? concat(tensor.is_meta() ? "a meta tensor of " : "a tensor of ", tensor.dtype(),
                            " by ", *spec)
                   : "",
              error);
  return *spec;
}

}  // namespace

ShardedFlatTensor::ShardedFlatTensor(const at::Tensor& data, bool requires_grad)
    : state_(std::make_shared<State>()) {
  TSR_CHECK(data.defined(), "a shard needs data; pass a tensor of one dimension");
  TSR_CHECK(data.dim() == 1, "a shard must have one dimension, but has shape ",
            shape_text(data.sizes()), "; flatten it first");
  state_->local = data.detach();
  if (requires_grad) state_->local.requires_grad_();
}

ShardedFlatTensor ShardedFlatTensor::shard(const at::Tensor& tensor, const Group& group,
                                           const FlatShardOptions& options) {
  const ShardingSpec spec = agreed_spec(tensor, group, options);
  const int64_t numel = spec.sharded_numels()[static_cast<size_t>(group.rank().value)];
  const c10::Device device =
      options.device.value_or(tensor.is_meta() ? c10::Device(at::kCPU) : tensor.device());
  const at::NoGradGuard no_grad;
  const at::Tensor data = tensor.is_meta()
                              ? at::empty({numel}, tensor.options().device(device))
                              : own_chunk(tensor, spec, group, options.synchronize).to(device);
  ShardedFlatTensor result(data, options.requires_grad.value_or(tensor.requires_grad()));
  result.state_->spec = spec;
  result.state_->group = group;
  return result;
}

at::Tensor ShardedFlatTensor::gathered(at::ScalarType dtype) const {
  const ShardingSpec& spec = sharding_spec();
  const at::Tensor row = padded(state_->local.detach().to(dtype), spec.largest_shard());
  if (spec.num_ranks() == 1) return join_chunks(row.clone().unsqueeze(0), spec);
  const at::Tensor rows = all_gather(row, process_group()).wait();
  return join_chunks(rows.view({spec.num_ranks(), -1}), spec);
}

at::Tensor ShardedFlatTensor::gathered_on_first(at::ScalarType dtype) const {
  const ShardingSpec& spec = sharding_spec();
  const at::Tensor row = padded(state_->local.detach().to(dtype), spec.largest_shard());
  std::vector<at::Tensor> rows(static_cast<size_t>(spec.num_ranks()), row);
  if (row.numel() > 0) rows = tessera::gather(row, kFirst, process_group()).wait();
  if (process_group().rank() != kFirst) return row.new_empty({0});
  const at::Tensor table = row.new_empty({spec.num_ranks(), row.numel()});
  for (int64_t rank = 0; rank < spec.num_ranks(); ++rank) {
    table[rank].copy_(rows[static_cast<size_t>(rank)]);
  }
  return join_chunks(table, spec);
}

at::Tensor ShardedFlatTensor::gather(std::optional<at::ScalarType> dtype, bool rank0_only) const {
  if (state_->unsharded) return state_->whole;
  const at::NoGradGuard no_grad;
  const at::ScalarType wanted = dtype.value_or(state_->local.scalar_type());
  at::Tensor whole = rank0_only ? gathered_on_first(wanted) : gathered(wanted);
  return whole.requires_grad_(requires_grad());
}

void ShardedFlatTensor::unshard_(const std::optional<at::Tensor>& unsharded_data,
                                 std::optional<at::ScalarType> dtype, bool rank0_only) {
  if (state_->unsharded) return;
  const ShardingSpec& spec = sharding_spec();
  if (!unsharded_data) {
    become_whole(gather(dtype, rank0_only));
  } else if (rank0_only && process_group().rank() != kFirst) {
    become_whole(unsharded_data->new_empty({0}));
  } else {
    TSR_CHECK(unsharded_data->numel() == spec.unsharded_numel(), "data of shape ",
              shape_text(unsharded_data->sizes()), " does not fit a tensor of shape ",
              shape_text(spec.unsharded_shape()), "; the numbers of elements must be equal");
    state_->take_whole(unsharded_data->view(spec.unsharded_shape()), false);
  }
  state_->unsharded = true;
}

void ShardedFlatTensor::become_whole(const at::Tensor& contents) {
  const at::Tensor& old = state_->whole;
  if (old.defined() && old.dtype() == contents.dtype() && old.sizes() == contents.sizes()) {
    refill_storage(old, contents);
  } else {
    state_->take_whole(contents, true);
  }
}

void ShardedFlatTensor::reshard_(bool writeback) {
  if (!state_->unsharded) return;
  if (writeback) write_back();
  if (state_->owns_whole) {
    free_storage(state_->whole);
  } else {
    state_->drop_whole();
  }
  state_->unsharded = false;
}

void ShardedFlatTensor::write_back() const {
  const at::NoGradGuard no_grad;
  const at::Tensor flat = state_->whole.detach().reshape({-1});
  state_->local.copy_(chunk_of_first(flat, sharding_spec(), process_group()));
}

void ShardedFlatTensor::mark_as_sharded(const ShardingSpec& spec, const Group& group) {
  const int64_t numel = sharded_numel();
  const std::exception_ptr error = error_of([&] {
    check_spec(spec, group);
    const int64_t wanted = spec.sharded_numels()[static_cast<size_t>(group.rank().value)];
    TSR_CHECK(numel == wanted, "the shard of rank ", group.rank(), " has ", numel,
              " elements, but ", wanted, " in the sharding spec ", spec);
  });
  check_alike({&group, 1}, "mark_as_sharded", concat(spec), error);
  state_->spec = spec;
  state_->group = group;
}

ShardedFlatTensor ShardedFlatTensor::wrap(const at::Tensor& other,
                                          std::optional<bool> requires_grad) const {
  TSR_CHECK(other.sizes() == tensor().sizes(), "a tensor of shape ", shape_text(other.sizes()),
            " cannot be wrapped as one of shape ", shape_text(tensor().sizes()));
  auto state = std::make_shared<State>();
  state->spec = sharding_spec();
  state->group = process_group();
  state->local = state_->unsharded ? sharded_chunk(other).detach().clone() : other.detach();
  state->local.requires_grad_(requires_grad.value_or(other.requires_grad()));
  if (state_->unsharded) state->take_whole(other, false);
  state->unsharded = state_->unsharded;
  return ShardedFlatTensor(std::move(state));
}

std::vector<at::Tensor> ShardedFlatTensor::chunk_unsharded(const at::Tensor& whole,
                                                           bool pad) const {
  check_unsharded(whole);
  const at::Tensor flat = whole.reshape({-1});
  if (pad) return padded_chunks(flat, sharding_spec());
  std::vector<at::Tensor> chunks;
  for (const FlatSpans& spans : sharding_spec().unsharded_flattened_offsets()) {
    chunks.push_back(flat_chunk(flat, spans));
  }
  return chunks;
}

at::Tensor ShardedFlatTensor::sharded_chunk(const at::Tensor& whole) const {
  check_unsharded(whole);
  return flat_chunk(whole.reshape({-1}), unsharded_flattened_offsets());
}

void ShardedFlatTensor::check_unsharded(const at::Tensor& whole) const {
  TSR_CHECK(whole.sizes() == at::IntArrayRef(unsharded_shape()), "a tensor of shape ",
            shape_text(whole.sizes()), " does not have the unsharded shape ",
            shape_text(unsharded_shape()));
}

const at::Tensor& ShardedFlatTensor::tensor() const& {
  return state_->unsharded ? state_->whole : state_->local;
}

at::Tensor ShardedFlatTensor::grad() const {
  if (state_->whole.defined() && state_->whole.grad().defined()) return state_->whole.grad();
  if (state_->grad.defined()) return state_->grad;
  return state_->local.grad();
}

void ShardedFlatTensor::set_sharded_grad(const at::Tensor& grad) {
  if (state_->whole.defined()) state_->whole.mutable_grad().reset();
  state_->grad.reset();
  state_->local.mutable_grad() = grad;
}

bool ShardedFlatTensor::requires_grad() const {
  return state_->local.requires_grad();
}

bool ShardedFlatTensor::metadata_set() const {
  return state_->spec.has_value();
}

bool ShardedFlatTensor::is_sharded() const {
  return !state_->unsharded;
}

const ShardingSpec& ShardedFlatTensor::sharding_spec() const& {
  if (!state_->spec) {
    throw StateError("the tensor has no sharding spec; call mark_as_sharded() first");
  }
  return *state_->spec;
}

const Group& ShardedFlatTensor::process_group() const& {
  (void)sharding_spec();  // Both are set together.
  return *state_->group;
}

const FlatSpans& ShardedFlatTensor::unsharded_flattened_offsets() const& {
  (void)sharding_spec();
  return state_->spans();
}

int64_t ShardedFlatTensor::unsharded_numel() const {
  return sharding_spec().unsharded_numel();
}

const std::vector<int64_t>& ShardedFlatTensor::unsharded_shape() const& {
  return sharding_spec().unsharded_shape();
}

int64_t ShardedFlatTensor::sharded_numel() const {
  return state_->local.numel();
}

std::vector<int64_t> ShardedFlatTensor::sharded_shape() const {
  return state_->local.sizes().vec();
}

const at::Tensor& ShardedFlatTensor::sharded_data() const& {
  return state_->local;
}

void ShardedFlatTensor::set_sharded_data(const at::Tensor& data) {
  TSR_CHECK(data.dim() == 1 && (!metadata_set() || data.numel() == sharded_numel()),
            "data of shape ", shape_text(data.sizes()), " does not fit a shard of shape ",
            shape_text(state_->local.sizes()));
  state_->local.set_data(data);
}

std::optional<at::Tensor> ShardedFlatTensor::unsharded_data() const {
  return state_->unsharded ? std::optional(state_->whole) : std::nullopt;
}

std::ostream& operator<<(std::ostream& out, const ShardedFlatTensor& tensor) {
  const auto text = [](const at::Tensor& t) {
    return concat(shape_text(t.sizes()), " ", t.dtype());
  };
  const auto& state = *tensor.state_;
  out << (state.is_parameter ? "ShardedFlatParameter" : "ShardedFlatTensor")
      << "(local_tensor=" << text(state.local);
  if (state.unsharded) out << ", global_tensor=" << text(state.whole);
  if (state.is_parameter) out << ", requires_grad=" << (tensor.requires_grad() ? "true" : "false");
  return out << ")";
}

ShardedFlatParameter::ShardedFlatParameter(const at::Tensor& data, bool requires_grad)
    : ShardedFlatParameter(
          ShardedFlatTensor(data.defined() ? data : at::empty({0}), requires_grad)) {}

ShardedFlatParameter::ShardedFlatParameter(const ShardedFlatTensor& tensor)
    : ShardedFlatTensor(tensor) {
  state_->is_parameter = true;
}

ShardedFlatParameter ShardedFlatParameter::shard(const at::Tensor& tensor, const Group& group,
                                                 const FlatShardOptions& options) {
  return ShardedFlatParameter(ShardedFlatTensor::shard(tensor, group, options));
}

}  // namespace tessera
