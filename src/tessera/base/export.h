#pragma once

/// Marks the namespaces of public headers: their declarations are visible outside a shared library,
/// everything else is hidden. It does not apply to friend functions that a source defines: mark
/// those separately.
#define TSR_API __attribute__((visibility("default")))
