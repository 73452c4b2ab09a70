#pragma once

#include <cstdint>

namespace tessera::ddp::detail {

/// A rank's report in a reduction: the number of its pass, and whether one of its backward passes
/// has failed.
struct PassReport {
  int64_t pass = 0;
  bool failed = false;

  friend bool operator==(const PassReport&, const PassReport&) = default;
};

/// Integers up to 256 are exact in every dtype in which gradients are summed.
inline constexpr int64_t kPassCodes = 128;

/// A report as one number. Every rank has its own element in the summed tensor and zeros in the
/// others', so the sum is the number that was sent.
constexpr int64_t to_code(const PassReport& report) {
  return report.pass % kPassCodes + (report.failed ? kPassCodes : 0);
}

/// Decodes a report on a rank in pass `own`: exact if the two are less than 64 passes apart.
constexpr PassReport from_code(int64_t code, int64_t own) {
  constexpr int64_t kHalf = kPassCodes / 2;
  const int64_t ahead = (code % kPassCodes - own % kPassCodes + kPassCodes + kHalf) % kPassCodes;
  return {.pass = own + ahead - kHalf, .failed = code >= kPassCodes};
}

}  // namespace tessera::ddp::detail
