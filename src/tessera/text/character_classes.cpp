#include <array>
#include <utility>

#include "tessera/text/internal/pattern.h"

namespace tessera::text::detail {
namespace {

// What Unicode 15 to 16 added, by category.
#define TSR_NEW_LU "\\x{1C89}\\x{A7CB}-\\x{A7CC}\\x{A7DA}\\x{A7DC}\\x{10D50}-\\x{10D65}"
#define TSR_NEW_LL "\\x{1C8A}\\x{A7CD}\\x{A7DB}\\x{10D70}-\\x{10D85}\\x{1DF25}-\\x{1DF2A}"
#define TSR_NEW_LM                                                                      \
  "\\x{10D4E}\\x{10D6F}\\x{16D40}-\\x{16D42}\\x{16D6B}-\\x{16D6C}\\x{1E030}-\\x{1E06D}" \
  "\\x{1E4EB}"
#define TSR_NEW_LO                                                                      \
  "\\x{105C0}-\\x{105F3}\\x{10D4A}-\\x{10D4D}\\x{10D4F}\\x{10EC2}-\\x{10EC4}"           \
  "\\x{1123F}-\\x{11240}\\x{11380}-\\x{11389}\\x{1138B}\\x{1138E}\\x{11390}-\\x{113B5}" \
  "\\x{113B7}\\x{113D1}\\x{113D3}\\x{11BC0}-\\x{11BE0}\\x{11F02}\\x{11F04}-\\x{11F10}"  \
  "\\x{11F12}-\\x{11F33}\\x{1342F}\\x{13441}-\\x{13446}\\x{13460}-\\x{143FA}"           \
  "\\x{16100}-\\x{1611D}\\x{16D43}-\\x{16D6A}\\x{18CFF}\\x{1B132}\\x{1B155}"            \
  "\\x{1E4D0}-\\x{1E4EA}\\x{1E5D0}-\\x{1E5ED}\\x{1E5F0}\\x{2B739}\\x{2EBF0}-\\x{2EE5D}" \
  "\\x{31350}-\\x{323AF}"
#define TSR_NEW_M                                                                       \
  "\\x{897}\\x{CF3}\\x{ECE}\\x{10D69}-\\x{10D6D}\\x{10EFC}-\\x{10EFF}\\x{11241}"        \
  "\\x{113B8}-\\x{113C0}\\x{113C2}\\x{113C5}\\x{113C7}-\\x{113CA}\\x{113CC}-\\x{113D0}" \
  "\\x{113D2}\\x{113E1}-\\x{113E2}\\x{11F00}-\\x{11F01}\\x{11F03}\\x{11F34}-\\x{11F3A}" \
  "\\x{11F3E}-\\x{11F42}\\x{11F5A}\\x{13440}\\x{13447}-\\x{13455}\\x{1611E}-\\x{1612F}" \
  "\\x{1E08F}\\x{1E4EC}-\\x{1E4EF}\\x{1E5EE}-\\x{1E5EF}"
#define TSR_NEW_ND                                                                       \
  "\\x{10D40}-\\x{10D49}\\x{116D0}-\\x{116E3}\\x{11BF0}-\\x{11BF9}\\x{11F50}-\\x{11F59}" \
  "\\x{16130}-\\x{16139}\\x{16D70}-\\x{16D79}\\x{1CCF0}-\\x{1CCF9}\\x{1E4F0}-\\x{1E4F9}" \
  "\\x{1E5F1}-\\x{1E5FA}"
#define TSR_NEW_NO "\\x{1D2C0}-\\x{1D2D3}"
#define TSR_NEW_PD "\\x{10D6E}"
#define TSR_NEW_PO                                                         \
  "\\x{1B4E}-\\x{1B4F}\\x{1B7F}\\x{113D4}-\\x{113D5}\\x{113D7}-\\x{113D8}" \
  "\\x{11B00}-\\x{11B09}\\x{11BE1}\\x{11F43}-\\x{11F4F}\\x{16D6D}-\\x{16D6F}\\x{1E5FF}"
#define TSR_NEW_SM "\\x{10D8E}-\\x{10D8F}"
#define TSR_NEW_SO                                                                      \
  "\\x{2427}-\\x{2429}\\x{2FFC}-\\x{2FFF}\\x{31E4}-\\x{31E5}\\x{31EF}"                  \
  "\\x{1CC00}-\\x{1CCEF}\\x{1CD00}-\\x{1CEB3}\\x{1F6DC}\\x{1F774}-\\x{1F776}"           \
  "\\x{1F77B}-\\x{1F77F}\\x{1F7D9}\\x{1F8B2}-\\x{1F8BB}\\x{1F8C0}-\\x{1F8C1}"           \
  "\\x{1FA75}-\\x{1FA77}\\x{1FA87}-\\x{1FA89}\\x{1FA8F}\\x{1FAAD}-\\x{1FAAF}"           \
  "\\x{1FABB}-\\x{1FABF}\\x{1FAC6}\\x{1FACE}-\\x{1FACF}\\x{1FADA}-\\x{1FADC}\\x{1FADF}" \
  "\\x{1FAE8}-\\x{1FAE9}\\x{1FAF7}-\\x{1FAF8}\\x{1FBCB}-\\x{1FBEF}"
#define TSR_NEW_L TSR_NEW_LU TSR_NEW_LL TSR_NEW_LM TSR_NEW_LO
// Letters, marks, digits, letter-like numbers, connectors, and letters in circles and squares.
#define TSR_OTHER_LETTERS \
  "\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}"

#define TSR_LETTERS \
  "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}" TSR_NEW_L TSR_NEW_M TSR_NEW_ND TSR_OTHER_LETTERS

constexpr std::array<std::pair<std::string_view, const char*>, 32> kClasses{{
    {"L", "\\p{L}" TSR_NEW_L},
    {"Lu", "\\p{Lu}" TSR_NEW_LU},
    {"Ll", "\\p{Ll}" TSR_NEW_LL},
    {"Lt", "\\p{Lt}"},
    {"Lm", "\\p{Lm}" TSR_NEW_LM},
    {"Lo", "\\p{Lo}" TSR_NEW_LO},
    {"M", "\\p{M}" TSR_NEW_M},
    {"Me", "\\p{Me}"},
    {"N", "\\p{N}" TSR_NEW_ND TSR_NEW_NO},
    {"Nd", "\\p{Nd}" TSR_NEW_ND},
    {"d", "\\p{Nd}" TSR_NEW_ND},
    {"Nl", "\\p{Nl}"},
    {"No", "\\p{No}" TSR_NEW_NO},
    {"P", "\\p{P}" TSR_NEW_PD TSR_NEW_PO},
    {"Pc", "\\p{Pc}"},
    {"Pd", "\\p{Pd}" TSR_NEW_PD},
    {"Ps", "\\p{Ps}"},
    {"Pe", "\\p{Pe}"},
    {"Pi", "\\p{Pi}"},
    {"Pf", "\\p{Pf}"},
    {"Po", "\\p{Po}" TSR_NEW_PO},
    {"S", "\\p{S}" TSR_NEW_SM TSR_NEW_SO},
    {"Sm", "\\p{Sm}" TSR_NEW_SM},
    {"Sc", "\\p{Sc}"},
    {"Sk", "\\p{Sk}"},
    {"So", "\\p{So}" TSR_NEW_SO},
    {"Z", "\\p{Z}"},
    {"Zs", "\\p{Zs}"},
    // PCRE2's own \s has U+180E as well.
    {"s",
     "\\x09-\\x0D\\x20\\x85\\xA0\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}"
     "\\x{3000}"},
    // All other characters.
    {"S!",
     "\\x00-\\x08\\x0E-\\x1F\\x21-\\x84\\x86-\\x9F\\xA1-\\x{167F}\\x{1681}-\\x{1FFF}\\x{200B}-"
     "\\x{2027}\\x{202A}-\\x{202E}\\x{2030}-\\x{205E}\\x{2060}-\\x{2FFF}\\x{3001}-\\x{10FFFF}"},
    // Oniguruma's \w has the numbers of Latin-1, Rust's two joiners.
    {"w", TSR_LETTERS "\\xB2\\xB3\\xB9\\xBC-\\xBE"},
    {"word", TSR_LETTERS "\\x{200C}\\x{200D}"},
}};

}  // namespace

const char* find_class(std::string_view name) {
  for (const auto& [known, characters] : kClasses) {
    if (known == name) return characters;
  }
  return nullptr;
}

}  // namespace tessera::text::detail
