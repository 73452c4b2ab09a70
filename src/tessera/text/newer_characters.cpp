#include "tessera/text/internal/newer_characters.h"

#include <algorithm>
#include <array>

namespace tessera::text::detail {
namespace {

struct Characters {
  char32_t first, last;
};

// Single characters of old blocks; the whole of new ones. In their order.
constexpr std::array kNewer{
    Characters{0x7FD, 0x7FD},     Characters{0x897, 0x89F},     Characters{0x8CA, 0x8D3},
    Characters{0x9FE, 0x9FE},     Characters{0xC3C, 0xC3C},     Characters{0xD3B, 0xD3C},
    Characters{0xEBA, 0xEBA},     Characters{0x1715, 0x1715},   Characters{0x1ABF, 0x1AFF},
    Characters{0x1DF6, 0x1DFA},   Characters{0x32FF, 0x32FF},   Characters{0xA7F1, 0xA7F4},
    Characters{0xA82C, 0xA82C},   Characters{0xAB69, 0xAB69},   Characters{0x105C0, 0x105FF},
    Characters{0x10780, 0x107BF}, Characters{0x10D00, 0x10D8F}, Characters{0x10EAB, 0x10EAC},
    Characters{0x10EFA, 0x10EFF}, Characters{0x10F30, 0x10F8F}, Characters{0x11070, 0x11070},
    Characters{0x1133B, 0x1133B}, Characters{0x11380, 0x113FF}, Characters{0x1145E, 0x1145E},
    Characters{0x11800, 0x1184F}, Characters{0x11900, 0x1195F}, Characters{0x119A0, 0x119FF},
    Characters{0x11A00, 0x11AAF}, Characters{0x11B60, 0x11B6F}, Characters{0x11D00, 0x11DDF},
    Characters{0x11F00, 0x11F5F}, Characters{0x16100, 0x1613F}, Characters{0x16D40, 0x16D7F},
    Characters{0x16FF0, 0x16FF1}, Characters{0x1CCD6, 0x1CCF9}, Characters{0x1E030, 0x1E08F},
    Characters{0x1E130, 0x1E136}, Characters{0x1E290, 0x1E2FF}, Characters{0x1E4D0, 0x1E5FF},
    Characters{0x1E6E0, 0x1E6FF}, Characters{0x1F16C, 0x1F16C}, Characters{0x1FBF0, 0x1FBF9},
};

}  // namespace

bool is_newer(char32_t character) {
  const auto* const range = std::ranges::lower_bound(kNewer, character, {}, &Characters::last);
  return range != kNewer.end() && range->first <= character;
}

}  // namespace tessera::text::detail
