#pragma once

#include <string>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Locks the file or folder that is open, for as long as its descriptor lives: the system lets go
/// of it however the process ends. Never waits: false where another descriptor has locked it.
/// DataError where the file system has no locks.
bool lock_file(const Descriptor& file, const std::string& path);

/// Whether the path leads to what is open: nobody has removed or replaced it meanwhile.
bool is_at(const Descriptor& file, const std::string& path);

}  // namespace tessera
