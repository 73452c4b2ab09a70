#pragma once

#include <string>
#include <string_view>

#include "tessera/base/environment.h"
#include "tessera/base/export.h"

/// Texts that people read: names in them come from files, and whoever wrote those may mean harm.
namespace tessera TSR_API {

/// The text with "\x1b" for what cannot be seen or could steer a terminal: control characters,
/// signs that turn the direction of writing, and bytes that are no UTF-8.
std::string visible(std::string_view text);

/// The same for a text of several lines, whose ends stay.
std::string visible_lines(std::string_view text);

/// The text in ASCII, for terminals that know no more: lines, bars and curves by signs of one
/// character each, "..." and "x" for "…" and "×", and "\xc3\xa9" for what has no such sign. ASCII
/// stays, the terminal's escape sequences with it.
std::string to_ascii(std::string_view text);

/// Whether texts may hold more than ASCII: LC_ALL, LC_CTYPE or LANG, the first that is set, names
/// UTF-8, or none is set.
bool speaks_utf8(const Environment& environment);

}  // namespace tessera
