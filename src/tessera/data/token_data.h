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

/// Consecutive tokens of a shared source; cheap to copy.
class TokenRun {
 public:
  explicit TokenRun(std::shared_ptr<const TokenSource> source);

  /// Of the source.
  const std::string& path() const& { return source_->path(); }
  std::string path() && { return source_->path(); }
  /// The whole source, of which this may be a part. Lives as long as a run of it.
  const TokenSource& source() const { return *source_; }
  /// Tokens of this run.
  int64_t size() const { return size_; }
  /// Reads the tokens from `begin` on, relative to this run; ConfigError beyond its end.
  void read(int64_t begin, std::span<int64_t> tokens) const;
  /// Tokens `begin` … `end` - 1 of this run.
  TokenRun part(int64_t begin, int64_t end) const;

 private:
  std::shared_ptr<const TokenSource> source_;
  int64_t begin_ = 0;
  int64_t size_ = 0;
};

/// Which texts or tokens are read, and how they are mixed.
struct DataOptions {
  std::vector<std::string> paths{};   // Files and folders, each one source.
  std::vector<double> weights{};      // One per path; empty: by size.
  TokenKind kind = TokenKind::kAuto;  // Of all paths.
};

/// One or more sources and the share of samples that each contributes.
class TokenData {
 public:
  /// Opens every source; ConfigError without a path, or if the weights do not match the paths.
  explicit TokenData(const DataOptions& options);

  /// In the order of the paths.
  std::span<const TokenRun> sources() const& { return sources_; }
  std::vector<TokenRun> sources() && { return std::move(sources_); }
  /// They sum to 1.
  std::span<const double> shares() const& { return shares_; }
  std::vector<double> shares() && { return std::move(shares_); }
  /// Tokens of all sources.
  int64_t size() const;
  /// DataError with file, position and id of the first token outside the vocabulary. Reads the
  /// files whole, including tokens that were split off.
  void check_vocabulary(int64_t vocab_size) const;

  struct Split;
  /// Holds out the end of each source; ConfigError if the share is outside 0 … 1.
  Split split(double validation_share) const;

 private:
  std::vector<TokenRun> sources_;
  std::vector<double> shares_;
};

/// Two disjoint parts.
struct TokenData::Split {
  TokenData train;       // The beginning of each source.
  TokenData validation;  // The end of each source; empty if the share is 0.
};

}  // namespace tessera
