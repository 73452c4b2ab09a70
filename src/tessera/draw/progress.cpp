#include "tessera/draw/progress.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "tessera/base/number_text.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

constexpr int64_t kShortestBar = 10;
constexpr int64_t kLongestBar = 40;
constexpr std::string_view kGap = "  ";
constexpr Rgb kBarColor{0, 128, 210};  // Visible on white and on black.

std::string loss_number(double loss) {
  return std::abs(loss) < 1000 ? fixed(loss, 3) : concat(loss);
}

// "812", "8.1k", "63.9k", "1.2M".
std::string rate_number(double rate) {
  if (rate < 1e3) return fixed(rate, 0);
  return rate < 1e6 ? fixed(rate / 1e3, 1) + "k" : fixed(rate / 1e6, 1) + "M";
}

std::string ms_text(double ms) {
  if (ms >= 1e4) return fixed(ms / 1e3, 1) + " s";
  return fixed(ms, ms < 10 ? 1 : 0) + " ms";
}

double share_done(const Progress& progress) {
  if (progress.steps <= 0) return 0;
  return std::clamp(static_cast<double>(progress.step) / static_cast<double>(progress.steps), 0.0,
                    1.0);
}

std::string percent_text(const Progress& progress) {
  return concat(std::floor(100 * share_done(progress)), " %");
}

// "" until the rate is known.
std::string left_text(const Progress& progress) {
  const int64_t done = progress.step - progress.begin;
  if (done <= 0) return "";
  const double a_step = progress.elapsed_s / static_cast<double>(done);
  return clock_text(a_step *
                    static_cast<double>(std::max<int64_t>(0, progress.steps - progress.step))) +
         " left";
}

std::vector<ProgressPart> parts_of(const Progress& progress) {
  std::vector<ProgressPart> parts{{percent_text(progress), 6},
                                  {concat("step ", progress.step, "/", progress.steps), 1},
                                  {concat("loss ", loss_number(progress.loss)), 7}};
  if (progress.validation_loss) {
    parts.push_back({concat("val ", loss_number(*progress.validation_loss)), 2});
  }
  parts.push_back({concat(rate_number(progress.tokens_per_s), " tok/s"), 4});
  parts.push_back({ms_text(progress.ms), 3});
  parts.push_back({left_text(progress), 5});
  std::erase_if(parts, [](const ProgressPart& part) { return part.text.empty(); });
  return parts;
}

std::string joined(const std::vector<ProgressPart>& parts) {
  std::vector<std::string_view> texts;
  for (const ProgressPart& part : parts) texts.push_back(part.text);
  return join(texts, kGap);
}

std::string repeated(std::string_view text, int64_t times) {
  std::string result;
  for (int64_t i = 0; i < times; ++i) result += text;
  return result;
}

// With a resolution of an eighth of a character.
std::string bar(double share, int64_t width, ColorMode color) {
  constexpr std::array<std::string_view, 8> kEighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<int64_t>(share * static_cast<double>(8 * width));
  const std::string part(kEighths.at(static_cast<size_t>(eighths % 8)));
  const int64_t empty = width - eighths / 8 - (part.empty() ? 0 : 1);
  return in_color(repeated("█", eighths / 8) + part, kBarColor, color) +
         faint(repeated("░", empty), color);
}

}  // namespace

std::string clock_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::ceil(std::clamp(seconds, 0.0, 1e9)));
  if (whole < 60) return concat(whole, " s");
  const auto two = [](int64_t number) { return concat(number < 10 ? "0" : "", number); };
  std::string minutes_on = concat(whole / 60 % 60, ":", two(whole % 60));
  if (whole < 3600) return minutes_on;
  return concat(whole / 3600, ":", whole / 60 % 60 < 10 ? "0" : "", minutes_on);
}

std::string progress_line(const Progress& progress, const TerminalOptions& options) {
  return progress_line(share_done(progress), parts_of(progress), options);
}

std::string progress_line(double share, std::vector<ProgressPart> parts,
                          const TerminalOptions& options) {
  const auto room = [&] {
    return options.width - static_cast<int64_t>(joined(parts).size() + kGap.size());
  };
  while (parts.size() > 1 && room() < kShortestBar) {
    parts.erase(std::ranges::min_element(parts, {}, &ProgressPart::importance));
  }
  std::string words =
      joined(parts).substr(0, static_cast<size_t>(std::max<int64_t>(0, options.width)));
  if (room() < kShortestBar) return words;
  const int64_t width = std::min(room(), kLongestBar);
  return concat(bar(share, width, options.color), kGap, words);
}

std::string progress_text(const Progress& progress) {
  std::string text = concat("step ", progress.step, "/", progress.steps, " (",
                            percent_text(progress), ")  loss ", loss_number(progress.loss));
  if (progress.validation_loss) {
    text += concat("  validation ", loss_number(*progress.validation_loss));
  }
  text += concat("  ", with_thousands(std::llround(progress.tokens_per_s)), " tokens/s  ",
                 ms_text(progress.ms), " per step");
  const std::string left = left_text(progress);
  return left.empty() ? text : concat(text, "  ", left);
}

}  // namespace tessera
