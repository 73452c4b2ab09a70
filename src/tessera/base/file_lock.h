#pragma once

#include <string>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Locks an open file or folder while its descriptor lives; the system releases the lock when the
/// process ends. Never waits: returns false if another descriptor holds the lock. DataError if the
/// file system has no locks.
bool lock_file(const Descriptor& file, const std::string& path);

/// Whether the path still leads to the open file: nobody has removed or replaced it.
bool is_at(const Descriptor& file, const std::string& path);

}  // namespace tessera
