#include "tessera/data/token_data.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tessera/base/check.h"

namespace tessera {
namespace {

void check_weights(const DataOptions& options) {
  TSR_CHECK(!options.paths.empty(), "no data was given; give a file or a folder");
  const size_t count = options.weights.size();
  TSR_CHECK(count == 0 || count == options.paths.size(), count, " weights for ",
            options.paths.size(), " paths; give one per path, or none");
  for (const double weight : options.weights) {
    TSR_CHECK(weight > 0 && std::isfinite(weight), "a weight of ", weight,
              "; weights must be finite and above 0; leave out paths that you do not want");
  }
}

std::vector<double> sizes_of(std::span<const TokenRun> sources) {
  std::vector<double> sizes;
  for (const TokenRun& source : sources) sizes.push_back(static_cast<double>(source.size()));
  return sizes;
}

// An empty source would have no share by size.
void check_sizes(std::span<const TokenRun> sources) {
  for (const TokenRun& source : sources) {
    if (source.size() == 0) throw DataError(concat(source.path(), " is empty"));
  }
}

}  // namespace

TokenRun::TokenRun(std::shared_ptr<const TokenSource> source)
    : source_(std::move(source)), size_(source_->size()) {}

void TokenRun::read(int64_t begin, std::span<int64_t> tokens) const {
  const auto count = static_cast<int64_t>(tokens.size());
  TSR_CHECK(begin >= 0 && begin <= size_ - count, "tokens ", begin, " to ", begin + count,
            " of a part of ", path(), " were requested, which has ", size_);
  source_->read(begin_ + begin, tokens);
}

TokenRun TokenRun::part(int64_t begin, int64_t end) const {
  TSR_CHECK(0 <= begin && begin <= end && end <= size_, "tokens ", begin, " to ", end,
            " are outside 0 to ", size_);
  TokenRun run = *this;
  run.begin_ += begin;
  run.size_ = end - begin;
  return run;
}

TokenData::TokenData(const DataOptions& options) {
  check_weights(options);
  for (const std::string& path : options.paths) {
    sources_.emplace_back(std::make_shared<const TokenSource>(path, options.kind));
  }
  check_sizes(sources_);
  shares_ = options.weights.empty() ? sizes_of(sources_) : options.weights;
  const double sum = std::accumulate(shares_.begin(), shares_.end(), 0.0);
  for (double& share : shares_) share /= sum;
}

int64_t TokenData::size() const {
  int64_t sum = 0;
  for (const TokenRun& source : sources_) sum += source.size();
  return sum;
}

void TokenData::check_vocabulary(int64_t vocab_size) const {
  for (const TokenRun& run : sources_) run.source().check_vocabulary(vocab_size);
}

TokenData::Split TokenData::split(double validation_share) const {
  TSR_CHECK(validation_share >= 0 && validation_share <= 1, "validation share ", validation_share,
            " is not between 0 and 1");
  Split parts{.train = *this, .validation = *this};
  for (size_t i = 0; i < sources_.size(); ++i) {
    const int64_t size = sources_[i].size();
    const auto held_out = static_cast<int64_t>(static_cast<double>(size) * validation_share);
    parts.train.sources_[i] = sources_[i].part(0, size - held_out);
    parts.validation.sources_[i] = sources_[i].part(size - held_out, size);
  }
  return parts;
}

}  // namespace tessera
