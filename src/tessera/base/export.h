#pragma once

/// Marks the namespaces of public headers: what they declare is seen from outside a shared library,
/// everything else stays hidden. It does not reach friend functions that a source defines: those
/// are marked by themselves.
#define TSR_API __attribute__((visibility("default")))
