#include "tessera/base/name_pattern.h"

#include <fnmatch.h>

#include <algorithm>
#include <iterator>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// With slashes for dots, the rules of path names are ours: "*" does not match a slash.
std::string as_path(std::string name) {
  std::ranges::replace(name, '.', '/');
  return name;
}

}  // namespace

std::vector<std::string> names_matching(const std::string& pattern,
                                        std::span<const std::string> names) {
  std::vector<std::string> matching;
  std::ranges::copy_if(names, std::back_inserter(matching), [&](const std::string& name) {
    return fnmatch(as_path(pattern).c_str(), as_path(name).c_str(), FNM_PATHNAME) == 0;
  });
  TSR_CHECK(!matching.empty(), "no module is named '", pattern, "'", did_you_mean(pattern, names),
            "; the modules are ", join(names, ", "));
  return matching;
}

}  // namespace tessera
