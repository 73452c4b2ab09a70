#include "tessera/text/internal/token_draft.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "tessera/base/check.h"
#include "tessera/base/file_lock.h"
#include "tessera/base/json_field.h"
#include "tessera/base/read_file.h"
#include "tessera/format/new_file.h"

namespace tessera::text::detail {
namespace {

int64_t width_of_type(DType dtype) {
  return bits_of(dtype) / 8;
}

template <class Number>
void append_numbers(std::span<const int64_t> ids, std::string& bytes) {
  bytes.resize(ids.size() * sizeof(Number));
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto number = static_cast<Number>(ids[i]);
    for (size_t byte = 0; byte < sizeof(Number); ++byte) {
      bytes[i * sizeof(Number) + byte] = static_cast<char>(number >> (8 * byte) & 0xffU);
    }
  }
}

// The job as far as the draft goes: files behind it may have changed, e.g. because one was mended.
nlohmann::json begun_part(nlohmann::json job, const DraftPosition& position) {
  if (!job.is_object() || !job.contains("files") || !job["files"].is_array()) return job;
  nlohmann::json& files = job["files"];
  const int64_t begun = position.document + (position.offset > 0 ? 1 : 0);
  while (static_cast<int64_t>(files.size()) > begun) files.erase(files.size() - 1);
  return job;
}

}  // namespace

TokenDraft::TokenDraft(const TokenizeJob& job, std::string job_text)
    : job_(job),
      job_text_(std::move(job_text)),
      draft_(job.output + ".part"),
      state_(job.output + ".state.json") {
  TSR_CHECK(job.restart || !std::filesystem::exists(job.output), job.output,
            " exists already; choose another output, or --restart to replace it");
  file_ =
      checked(open(draft_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666), "cannot write " + draft_);
  TSR_CHECK(lock_file(file_, draft_), draft_, " is being written by another process");
  if (job.restart) unlink(state_.c_str());  // It counts tokens that go now.
  if (std::filesystem::exists(state_)) resume();
  const int64_t bytes = position_.tokens * width_of_type(job_.dtype);
  if (ftruncate(file_.get(), bytes) != 0 || lseek(file_.get(), bytes, SEEK_SET) < 0) {
    throw_system_error("cannot write " + draft_);
  }
}

void TokenDraft::resume() {
  const std::string text = read_file(state_, size_t{1} << 30U);
  const JsonSource source{.origin = state_, .what = "state of tokenizing", .deepest = 8};
  const nlohmann::json json = parse_json(text, source);
  const JsonField state(json, source);
  position_ = {.document = state.at("document").integer(0, INT64_MAX - 1),
               .offset = state.at("offset").integer(0),
               .tokens = state.at("tokens").integer(0)};
  const nlohmann::json before = begun_part(state.at("job").value(), position_);
  TSR_CHECK(
      before.dump() == begun_part(nlohmann::json::parse(job_text_), position_).dump(), draft_,
      " is the unfinished output of a job with other inputs, flags or tokenizer; finish that one, "
      "or start over with --restart");
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(draft_));
  if (position_.tokens <= bytes / width_of_type(job_.dtype)) return;
  throw DataError(concat(draft_, " has ", bytes, " bytes, fewer than the ", position_.tokens,
                         " tokens that ", state_, " counts; start over with --restart"));
}

void TokenDraft::write(std::span<const int64_t> ids) {
  job_.dtype == DType::kU16 ? append_numbers<uint16_t>(ids, buffer_)
                            : append_numbers<uint32_t>(ids, buffer_);
  write_all(file_, buffer_, draft_);
}

void TokenDraft::save(const DraftPosition& position) {
  if (fdatasync(file_.get()) != 0) throw_system_error("cannot write " + draft_);
  position_ = position;
  const nlohmann::ordered_json state{{"job", nlohmann::ordered_json::parse(job_text_)},
                                     {"document", position.document},
                                     {"offset", position.offset},
                                     {"tokens", position.tokens}};
  NewFile file(state_);
  file.write(state.dump(1) + "\n");
  file.finish();
}

void TokenDraft::finish() {
  if (fsync(file_.get()) != 0 || std::rename(draft_.c_str(), job_.output.c_str()) != 0) {
    throw_system_error("cannot write " + job_.output);
  }
  unlink(state_.c_str());
}

}  // namespace tessera::text::detail
