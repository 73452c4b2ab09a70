#include "tessera/checkpoint/saver.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <map>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/error_words.h"
#include "tessera/checkpoint/internal/dtypes.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/objects.h"
#include "tessera/format/checkpoint/checkpoint_folder.h"
#include "tessera/format/checkpoint/save_plan.h"
#include "tessera/format/checkpoint/shard_files.h"

namespace tessera {

using namespace checkpoint::detail;

namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What this rank holds, for the others: name, dtype, shape and boxes.
json offer_of(const CheckpointEntries& entries) {
  json offer = json::array();
  for (const CheckpointEntry& entry : entries) {
    json boxes = json::array();
    for (const Box& box : entry.boxes) boxes.push_back({box.shape, box.offset});
    offer.push_back({entry.name, static_cast<int>(stored_dtype(entry.tensor.scalar_type())),
                     entry.shape, boxes});
  }
  return offer;
}

std::vector<HeldTensor> held_by(const json& offer) {
  std::vector<HeldTensor> held;
  for (const json& one : offer) {
    HeldTensor tensor{
        .name = one.at(0), .dtype = static_cast<DType>(one.at(1).get<int>()), .shape = one.at(2)};
    for (const json& box : one.at(3)) tensor.boxes.push_back({box.at(0), box.at(1)});
    held.push_back(std::move(tensor));
  }
  return held;
}

std::vector<std::vector<PieceToSave>> plan_together(const CheckpointEntries& entries,
                                                    const Group& group) {
  std::vector<std::vector<HeldTensor>> ranks;
  for (const json& offer : all_gather_object(offer_of(entries), group)) {
    ranks.push_back(held_by(offer));
  }
  return plan_save(ranks);
}

bool contains(const Box& outer, const Box& inner) {
  return intersect(outer, inner) == inner;
}

// The elements of the entry that the piece has.
at::Tensor elements_of(const CheckpointEntry& entry, const PieceToSave& piece) {
  int64_t begin = 0;
  for (const Box& box : entry.boxes) {
    if (!contains(box, piece.box)) {
      begin += box.numel();
      continue;
    }
    const at::Tensor flat = entry.tensor.detach().reshape(-1).narrow(0, begin, box.numel());
    at::Tensor part = flat.view(box.shape);
    for (size_t dim = 0; dim < box.shape.size(); ++dim) {
      part = part.narrow(static_cast<int64_t>(dim), piece.box.offset[dim] - box.offset[dim],
                         piece.box.shape[dim]);
    }
    return part;
  }
  throw InternalError(concat("a piece of '", piece.name, "' is in no box of its rank"));
}

// Page-locked memory, which a GPU copies to beside its computation.
at::Tensor host_memory(const at::Tensor& like) {
  const bool pinned = !like.device().is_cpu();
  return at::empty(like.sizes(),
                   at::TensorOptions().dtype(like.scalar_type()).pinned_memory(pinned));
}

bool fits(const at::Tensor& memory, const at::Tensor& like) {
  return memory.defined() && memory.sizes() == like.sizes() &&
         memory.scalar_type() == like.scalar_type() &&
         memory.is_pinned() == !like.device().is_cpu();
}

void wait_for(at::Device device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.synchronizeDevice(guard.getDevice().index());
}

std::string words_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return error_words(known);
  }
}

std::string first_error(const std::vector<std::string>& errors) {
  for (size_t rank = 0; rank < errors.size(); ++rank) {
    if (!errors[rank].empty()) return concat("rank ", rank, ": ", errors[rank]);
  }
  return "";
}

}  // namespace

struct CheckpointSaver::InFlight {
  SaveRequest request;
  size_t rank;
  Clock::time_point start;
  SaveReport report = {};
  std::optional<CheckpointDraft> draft = std::nullopt;  // On rank 0.
  std::vector<PieceToSave> pieces = {};
  std::vector<at::Tensor> values = {};        // Of the pieces, contiguous, on the CPU.
  std::future<CheckpointIndex> written = {};  // Last member: its thread uses the others.

  CheckpointIndex write(const std::string& folder) const {
    return write_shard(folder, rank, pieces, [this](size_t i) {
      return std::span(static_cast<const std::byte*>(values[i].const_data_ptr()),
                       values[i].nbytes());
    });
  }
};

CheckpointSaver::CheckpointSaver(Group group) : group_(std::move(group)) {}
CheckpointSaver::~CheckpointSaver() = default;

bool CheckpointSaver::in_flight() const {
  return save_ != nullptr;
}

void CheckpointSaver::begin(SaveRequest request, const CheckpointEntries& entries) {
  start(std::move(request), entries, Copy::kAlways);
}

void CheckpointSaver::start(SaveRequest request, const CheckpointEntries& entries, Copy copy) {
  if (save_) throw StateError("a checkpoint is still being saved; call finish() first");
  const auto start = Clock::now();
  auto plan = plan_together(entries, group_);
  save_ = std::make_unique<InFlight>(InFlight{.request = std::move(request),
                                              .rank = static_cast<size_t>(group_.rank().value),
                                              .start = start});
  save_->report = {.path = save_->request.path, .step = save_->request.step};
  for (const auto& pieces : plan) save_->report.bytes += bytes_of_pieces(pieces);
  const std::string folder = make_draft();
  if (folder.empty()) return;
  save_->pieces = std::move(plan[save_->rank]);
  copy_values(entries, copy);
  save_->report.stall_s = seconds_since(start);
  save_->written =
      std::async(std::launch::async, [own = save_.get(), folder] { return own->write(folder); });
}

std::string CheckpointSaver::make_draft() {
  json made;  // Rank 0's folder, or its error.
  if (save_->rank == 0) {
    try {
      save_->draft.emplace(save_->request.path, save_->report.bytes);
      made = {save_->draft->path(), ""};
    } catch (const Error& error) {
      made = {"", error.what()};
    }
  }
  made = broadcast_object(made, GroupRank{0}, group_);
  save_->report.error = made.at(1);
  return made.at(0);
}

void CheckpointSaver::copy_values(const CheckpointEntries& entries, Copy copy) {
  const at::NoGradGuard no_grad;
  std::map<std::string_view, const CheckpointEntry*> by_name;
  for (const CheckpointEntry& entry : entries) by_name[entry.name] = &entry;
  host_.resize(save_->pieces.size());
  at::Device device = at::kCPU;
  for (size_t i = 0; i < save_->pieces.size(); ++i) {
    const PieceToSave& piece = save_->pieces[i];
    const at::Tensor values = elements_of(*by_name.at(piece.name), piece);
    if (copy == Copy::kIfNeeded && values.device().is_cpu() && values.is_contiguous()) {
      save_->values.push_back(values);
      continue;
    }
    if (!fits(host_[i], values)) host_[i] = host_memory(values);
    host_[i].copy_(values, /*non_blocking=*/true);
    if (!values.device().is_cpu()) device = values.device();
    save_->values.push_back(host_[i]);
  }
  wait_for(device);
}

std::optional<SaveReport> CheckpointSaver::poll() {
  if (!save_) return std::nullopt;
  const bool done = !save_->written.valid() ||
                    save_->written.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  const at::Tensor all = all_reduce(at::full({1}, done, at::kInt), group_, ReduceOp::kMin).wait();
  if (!all.item<bool>()) return std::nullopt;
  return publish();
}

std::optional<SaveReport> CheckpointSaver::finish() {
  if (!save_) return std::nullopt;
  return publish();
}

SaveReport CheckpointSaver::save(SaveRequest request, const CheckpointEntries& entries) {
  start(std::move(request), entries, Copy::kIfNeeded);
  SaveReport report = publish();
  report.stall_s = report.seconds;
  return report;
}

SaveReport CheckpointSaver::publish() {
  const std::unique_ptr<InFlight> save = std::move(save_);
  if (!save->report.succeeded()) return save->report;
  json mine{"", ""};  // What this rank wrote, or its error.
  try {
    mine[0] = to_json(save->written.get());
  } catch (...) {
    mine[1] = words_of(std::current_exception());
  }
  std::vector<std::string> errors;
  CheckpointIndex index{.step = save->request.step, .state = save->request.state};
  std::string error;
  for (const json& rank : all_gather_object(mine, group_)) {
    errors.push_back(rank.at(1));
    if (!errors.back().empty() || !save->draft) continue;
    merge(index, parse_checkpoint_index(rank.at(0).get<std::string>(), "a rank's index"));
  }
  error = first_error(errors);
  if (save->draft && error.empty()) {
    try {
      save->draft->publish(index);
    } catch (const Error& refused) {
      error = refused.what();
    }
  }
  save->draft.reset();  // Removes what was not published.
  save->report.error = broadcast_object(error, GroupRank{0}, group_);
  save->report.seconds = seconds_since(save->start);
  return save->report;
}

}  // namespace tessera
