#pragma once

#include <memory>
#include <string>

#include "tessera/base/export.h"
#include "tessera/launch/options.h"
#include "tessera/launch/output.h"
#include "tessera/topology/rank.h"

namespace tessera TSR_API {

/// The launcher's stdout and stderr, which all ranks share.
class Screen {
 public:
  Screen(const LaunchOptions& options, EventLoop& loop);

  /// To the launcher's stdout.
  Sink& out() { return out_; }
  /// The same as out() if both lead to the same file, so that lines stay whole.
  Sink& err() { return err_ ? *err_ : out_; }
  /// "[ 3] ", equally wide for all ranks, coloured by rank on a terminal.
  std::string out_prefix(GlobalRank rank) const { return prefix(rank, options_.out_color); }
  /// The same for stderr, which may have other colours.
  std::string err_prefix(GlobalRank rank) const { return prefix(rank, options_.err_color); }
  /// Prints a message of the launcher on stderr.
  void say(const std::string& words);
  /// Prints text unchanged on stderr, in ASCII if the locale is not UTF-8.
  void show(const std::string& text);

 private:
  std::string prefix(GlobalRank rank, ColorMode color) const;

  const LaunchOptions& options_;
  Sink out_;
  std::unique_ptr<Sink> err_;
};

}  // namespace tessera
