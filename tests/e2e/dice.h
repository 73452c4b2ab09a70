#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

namespace tessera::golden {

/// Random choices, the same ones for the same seed.
class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}

  bool coin() { return below(2) == 0; }
  size_t below(size_t end) { return std::uniform_int_distribution<size_t>(0, end - 1)(engine_); }
  template <class List>
  auto& one_of(List& list) {
    return list.at(below(list.size()));
  }
  template <class List>
  void shuffle(List& list) {
    std::shuffle(list.begin(), list.end(), engine_);
  }
  std::string blanks() { return std::string(below(3), ' '); }

 private:
  std::mt19937_64 engine_;
};

/// Whether a part of a golden table is one with cases.
inline bool is_list_of_cases(const nlohmann::json& value) {
  return value.is_array() && !value.empty() && value[0].is_object();
}

}  // namespace tessera::golden
