#pragma once

namespace tessera::text::detail {

/// Whether newer versions of Unicode than 9 move, join or replace this character in normal forms.
/// The `tokenizers` package uses those of Unicode 9, in which it is an ordinary character.
bool is_newer(char32_t character);

}  // namespace tessera::text::detail
