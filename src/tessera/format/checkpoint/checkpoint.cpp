#include "tessera/format/checkpoint/checkpoint.h"

#include <cstring>
#include <filesystem>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/read_file.h"
#include "tessera/base/terminal_text.h"
#include "tessera/format/checkpoint/box_copy.h"
#include "tessera/format/checksum.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostIndexBytes = size_t{1} << 31;

std::vector<std::string> names_of(const CheckpointIndex& index) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : index.tensors) names.push_back(name);
  return names;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return concat("[", join(shape, ", "), "]");
}

CheckpointIndex read_index(const std::string& folder) {
  if (!is_checkpoint(folder)) {
    throw DataError(concat(folder, " holds no complete checkpoint (no ", CheckpointIndex::kFile,
                           "); give a checkpoint, or a run directory that has one"));
  }
  const std::string path = fs::path(folder) / CheckpointIndex::kFile;
  CheckpointIndex index = parse_checkpoint_index(read_file(path, kMostIndexBytes), path);
  check_complete(index, path);
  return index;
}

}  // namespace

bool is_checkpoint(const std::string& folder) {
  std::error_code error;
  return fs::is_regular_file(fs::path(folder) / CheckpointIndex::kFile, error);
}

Checkpoint::Checkpoint(std::string folder)
    : folder_(std::move(folder)), index_(read_index(folder_)) {}

const CheckpointTensor& Checkpoint::tensor(std::string_view name) const& {
  const auto at = index_.tensors.find(name);
  if (at != index_.tensors.end()) return at->second;
  throw DataError(concat(folder_, " holds no tensor '", visible(name), "'",
                         did_you_mean(name, names_of(index_)),
                         "; is it a checkpoint of another model or optimizer?"));
}

std::string Checkpoint::path_of(size_t file) const {
  return fs::path(folder_) / index_.files.at(file).path;
}

const SafetensorsFile& Checkpoint::open(size_t file) const {
  const auto at = opened_.find(file);
  if (at != opened_.end()) return at->second;
  const std::string path = path_of(file);
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error) throw DataError(concat("cannot read ", path, ": ", error.message()));
  const int64_t expected = index_.files[file].bytes;
  if (static_cast<int64_t>(size) != expected) {
    throw DataError(concat(path, " has ", size, " bytes, but ", expected,
                           " were saved; was it truncated or replaced?"));
  }
  return opened_.emplace(file, SafetensorsFile(path)).first->second;
}

const StoredTensor& Checkpoint::stored(const SafetensorsFile& file, std::string_view name,
                                       const CheckpointTensor& tensor,
                                       const CheckpointPiece& piece) const {
  const StoredTensor* const found = file.find(name);
  if (found == nullptr) {
    throw DataError(concat(file.path(), " holds no tensor '", visible(name),
                           "', which the index expects there; is it of another checkpoint?"));
  }
  if (found->spec.dtype == tensor.dtype && found->spec.shape == piece.box.shape) return *found;
  throw DataError(concat(file.path(), ": '", visible(name), "' is ", to_string(found->spec.dtype),
                         " ", shape_text(found->spec.shape), ", but the index expects ",
                         to_string(tensor.dtype), " ", shape_text(piece.box.shape),
                         "; is it of another checkpoint?"));
}

void Checkpoint::copy(const SafetensorsFile& file, const StoredTensor& stored, const Box& piece,
                      const Box& wanted, std::span<std::byte> out) const {
  constexpr size_t kLeastToRead = 16 << 10;  // Below, a system call takes longer than the copy.
  const auto shared = intersect(piece, wanted);
  if (!shared) return;
  const auto width = static_cast<size_t>(bits_of(stored.spec.dtype) / 8);
  const auto bytes = file.bytes(stored);
  for_each_shared_run(piece, wanted, *shared, [&](int64_t from, int64_t to, int64_t size) {
    const size_t begin = static_cast<size_t>(from) * width;
    const auto target =
        out.subspan(static_cast<size_t>(to) * width, static_cast<size_t>(size) * width);
    if (target.size() >= kLeastToRead) {
      file.read(stored, begin, target);
    } else {
      std::memcpy(target.data(), bytes.data() + begin, target.size());
    }
    bytes_read_ += static_cast<int64_t>(target.size());
  });
}

void Checkpoint::read(std::string_view name, const Box& box, std::span<std::byte> out) const {
  const CheckpointTensor& from = tensor(name);
  const Box whole{from.shape, std::vector<int64_t>(from.shape.size(), 0)};
  TSR_CHECK(
      box.shape.size() == from.shape.size() && (box.numel() == 0 || intersect(box, whole) == box),
      "box ", box, " is not inside '", name, "' of shape ", shape_text(from.shape));
  const int64_t bytes = box.numel() * (bits_of(from.dtype) / 8);
  TSR_CHECK(static_cast<int64_t>(out.size()) == bytes, "memory of ", out.size(),
            " bytes for a box of ", bytes);
  if (bytes == 0) return;
  for (const CheckpointPiece& piece : from.pieces) {
    if (!intersect(piece.box, box)) continue;
    const SafetensorsFile& file = open(piece.file);
    copy(file, stored(file, name, from, piece), piece.box, box, out);
  }
}

void Checkpoint::verify(size_t file, const std::function<void(int64_t bytes)>& after_block) const {
  const SafetensorsFile& opened = open(file);
  for (const auto& [name, tensor] : index_.tensors) {
    for (const CheckpointPiece& piece : tensor.pieces) {
      if (piece.file == file) stored(opened, name, tensor, piece);
    }
  }
  const std::string path = path_of(file);
  const MappedFile whole(path);
  constexpr size_t kBlock = 256 << 10;  // Stays in the cache until it is summed.
  std::vector<std::byte> block(kBlock);
  uint32_t sum = 0;
  for (size_t at = 0; at < whole.bytes().size(); at += kBlock) {
    const std::span<std::byte> next(block.data(), std::min(kBlock, whole.bytes().size() - at));
    whole.read(at, next);
    sum = crc32c(next, sum);
    if (after_block) after_block(static_cast<int64_t>(next.size()));
  }
  if (sum == index_.files[file].crc32c) return;
  throw DataError(concat(path,
                         " has another checksum than when it was saved: it was altered, or "
                         "the disk is damaged"));
}

}  // namespace tessera
