#include "tessera/base/random.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/base/check.h"
#include "tessera/base/checked.h"
#include "tessera/base/internal/random_kernels.h"

namespace tessera {

using namespace base::detail;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// FNV-1a, one byte.
uint64_t mix_in(uint64_t hash, uint8_t byte) {
  return (hash ^ byte) * 0x100000001b3;
}

/// The last step of SplitMix64: spreads differences in a few bits over all bits.
uint64_t spread(uint64_t hash) {
  hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ hash >> 27) * 0x94d049bb133111eb;
  return hash ^ hash >> 31;
}

uint64_t hash_of(const RandomKey& key) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : key.name) hash = mix_in(hash, static_cast<uint8_t>(letter));
  for (int bit = 0; bit < 64; bit += 8) hash = mix_in(hash, static_cast<uint8_t>(key.call >> bit));
  return spread(hash);
}

void check(const Constant& /*any value will do*/) {}

void check(const Uniform& d) {
  TSR_CHECK(std::isfinite(d.low) && std::isfinite(d.high) && d.low < d.high,
            "a uniform distribution from ", d.low, " to ", d.high,
            " does not exist; give finite bounds, the lower first, or use Constant");
  TSR_CHECK(std::isfinite(d.high - d.low), "a uniform distribution from ", d.low, " to ", d.high,
            " is wider than a double; choose nearer bounds");
}

void check(const Normal& d) {
  TSR_CHECK(std::isfinite(d.mean) && std::isfinite(d.std) && d.std >= 0,
            "a normal distribution of mean ", d.mean, " and standard deviation ", d.std,
            " does not exist; both must be finite, and the deviation at least 0");
}

void check(const TruncatedNormal& d) {
  check(Normal{d.mean, d.std});
  TSR_CHECK(d.std > 0, "a truncated normal distribution needs a standard deviation above 0, not ",
            d.std, "; use Constant");
  TSR_CHECK(d.low < d.high, "a normal distribution truncated to [", d.low, ", ", d.high,
            "] is empty; give the lower bound first");
}

void check(const Bernoulli& d) {
  TSR_CHECK(d.probability >= 0 && d.probability <= 1, "a probability of ", d.probability,
            " is invalid; choose one from 0 to 1");
}

/// Smaller parts would need probabilities below kSmallestTail.
constexpr double kSmallestPart = 0x1p-20;

NormalParts parts_of(const Distribution& distribution) {
  const auto* d = std::get_if<TruncatedNormal>(&distribution);
  if (d == nullptr) return {};
  const NormalParts parts = normal_parts((d->low - d->mean) / d->std, (d->high - d->mean) / d->std);
  TSR_CHECK(parts.within >= kSmallestPart, "[", d->low, ", ", d->high,
            "] holds less than a millionth of the normal distribution of mean ", d->mean,
            " and standard deviation ", d->std, "; choose bounds closer to the mean");
  return parts;
}

void make_units(const RandomStream& stream, uint64_t first, std::span<double> units,
                float* /*to*/) {
  units_of_32_bits(stream, first, units);
}

void make_units(const RandomStream& stream, uint64_t first, std::span<double> units,
                double* /*to*/) {
  units_of_52_bits(stream, first, units);
}

/// The largest T below `bound`.
template <class T>
T largest_below(double bound) {
  const T nearest = static_cast<T>(bound);
  return nearest < bound ? nearest : std::nextafter(nearest, -std::numeric_limits<T>::infinity());
}

/// Maps units to the values of a distribution; overwrites `units`.
template <class T>
struct Transform {
  std::span<double> units;
  const NormalParts& parts;
  T* out;

  void operator()(const Constant& d) { std::fill_n(out, units.size(), static_cast<T>(d.value)); }

  void operator()(const Uniform& d) {
    scale_into(units, d.low, d.high - d.low, static_cast<T>(d.low), largest_below<T>(d.high), out);
  }

  void operator()(const Normal& d) { (*this)({d.mean, d.std, -kInfinity, kInfinity}); }

  void operator()(const TruncatedNormal& d) {
    normal_quantiles(parts, units);
    scale_into(units, d.mean, d.std, static_cast<T>(d.low), static_cast<T>(d.high), out);
  }

  void operator()(const Bernoulli& d) {
    for (size_t i = 0; i < units.size(); ++i) out[i] = units[i] < d.probability ? T{1} : T{0};
  }
};

}  // namespace

Sampler::Sampler(const RandomKey& key, const Distribution& distribution)
    : stream_{key.seed, hash_of(key)}, distribution_(distribution) {
  std::visit([](const auto& d) { check(d); }, distribution);
  parts_ = parts_of(distribution);
}

template <class T>
void Sampler::fill_batches(int64_t first, std::span<T> out) const {
  TSR_CHECK(first >= 0, "element ", first, " does not exist; elements are numbered from 0");
  checked_add(first, static_cast<int64_t>(out.size()), "the last element");
  RandomBuffer<double> buffer;
  for (size_t done = 0; done < out.size(); done += kRandomBatch) {
    const std::span units(buffer.data(), std::min(kRandomBatch, out.size() - done));
    T* const begin = out.data() + done;
    make_units(stream_, static_cast<uint64_t>(first) + done, units, begin);
    std::visit(Transform<T>{units, parts_, begin}, distribution_);
  }
}

void Sampler::fill(int64_t first, std::span<float> out) const {
  fill_batches(first, out);
}

void Sampler::fill(int64_t first, std::span<double> out) const {
  fill_batches(first, out);
}

}  // namespace tessera
