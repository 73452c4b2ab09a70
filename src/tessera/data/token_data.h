#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/data/token_source.h"

namespace tessera TSR_API {

/// Consecutive tokens of a source, which is shared: a copy costs nothing.
class TokenRun {
 public:
  explicit TokenRun(std::shared_ptr<const TokenSource> source);

  const std::string& path() const& { return source_->path(); }
  std::string path() && { return source_->path(); }
  const TokenSource& source() const { return *source_; }
  int64_t size() const { return size_; }
  /// The tokens from `begin` on, counted from the start of the run; ConfigError beyond its end.
  void read(int64_t begin, std::span<int64_t> tokens) const;
  /// Those from `begin` to before `end`.
  TokenRun part(int64_t begin, int64_t end) const;

 private:
  std::shared_ptr<const TokenSource> source_;
  int64_t begin_ = 0;
  int64_t size_ = 0;
};

struct DataOptions {
  std::vector<std::string> paths{};
  std::vector<double> weights{};  // One a path. None: each source counts by its size.
  TokenKind kind = TokenKind::kAuto;
};

/// One or several sources, and how large a share of the samples each is to give.
class TokenData {
 public:
  /// Opens every source; ConfigError without any, and where the weights do not fit them.
  explicit TokenData(const DataOptions& options);

  std::span<const TokenRun> sources() const& { return sources_; }
  std::vector<TokenRun> sources() && { return std::move(sources_); }
  /// They add up to 1.
  std::span<const double> shares() const& { return shares_; }
  std::vector<double> shares() && { return std::move(shares_); }
  /// Of all sources together.
  int64_t size() const;
  /// DataError with file, position and id of the first token beyond the vocabulary. Reads all, the
  /// parts that were split off, too.
  void check_vocabulary(int64_t vocab_size) const;

  struct Split;
  /// Holds out the last part of each source; ConfigError for a share outside 0 … 1.
  Split split(double validation_share) const;

 private:
  std::vector<TokenRun> sources_;
  std::vector<double> shares_;
};

/// Two parts that have no token in common.
struct TokenData::Split {
  TokenData train;
  TokenData validation;
};

}  // namespace tessera
