#pragma once

/// Marks the namespaces of public headers: what they declare is seen from outside a shared library,
/// everything else stays hidden.
#define TSR_API __attribute__((visibility("default")))
