#pragma once

#include <string>
#include <string_view>

#include "tessera/base/environment.h"
#include "tessera/base/export.h"

/// Text for terminals: names in it come from files, which may be hostile.
namespace tessera TSR_API {

/// The text with escapes such as "\x1b" for everything invisible or dangerous to a terminal:
/// control characters, marks that change the writing direction, and invalid UTF-8.
std::string visible(std::string_view text);

/// The same for a text of several lines; keeps line breaks.
std::string visible_lines(std::string_view text);

/// The same for what a person reads, such as the words of a model; keeps tabs and the joiners of
/// emoji and scripts, too.
std::string visible_text(std::string_view text);

/// The text in ASCII, for terminals without UTF-8: lines, bars and curves as one ASCII character
/// each, "..." and "x" for "…" and "×", and "\xc3\xa9" for other characters. Keeps ASCII, including
/// the terminal's escape sequences.
std::string to_ascii(std::string_view text);

/// Whether output may contain UTF-8: the first of LC_ALL, LC_CTYPE and LANG that is set names
/// UTF-8, or none is set.
bool speaks_utf8(const Environment& environment);

}  // namespace tessera
