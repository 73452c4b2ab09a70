#include "tessera/base/file_lock.h"

#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>

namespace tessera {

bool lock_file(const Descriptor& file, const std::string& path) {
  while (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR) throw_system_error("cannot lock " + path);
  }
  return true;
}

bool is_at(const Descriptor& file, const std::string& path) {
  struct stat open {};
  struct stat found {};
  return fstat(file.get(), &open) == 0 && stat(path.c_str(), &found) == 0 &&
         open.st_dev == found.st_dev && open.st_ino == found.st_ino;
}

}  // namespace tessera
