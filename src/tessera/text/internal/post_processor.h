#pragma once

#include <cstdint>
#include <vector>

#include "tessera/base/json_field.h"

namespace tessera::text::detail {

/// A file's `post_processor`: what stands before and behind a text's ids.
class PostProcessor {
 public:
  PostProcessor() = default;
  /// DataError for a kind that is not supported.
  explicit PostProcessor(const JsonField& field);

  const std::vector<int64_t>& before() const { return before_; }
  const std::vector<int64_t>& after() const { return after_; }

 private:
  void add(const JsonField& field);
  void add_template(const JsonField& field);

  std::vector<int64_t> before_;
  std::vector<int64_t> after_;
};

}  // namespace tessera::text::detail
