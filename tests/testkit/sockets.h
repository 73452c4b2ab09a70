#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace tessera::testkit {

/// A TCP socket in the kernel's list: the address in hexadecimal digits.
struct TcpSocket {
  std::string address;
  std::string state;

  bool listens() const { return state == "0A"; }
  bool is_on_loopback() const {
    constexpr const char* kLoopbacks[] = {"0100007F", "0000000000000000FFFF00000100007F",
                                          "00000000000000000000000001000000"};
    return std::ranges::any_of(kLoopbacks, [&](const char* prefix) {
      return address.starts_with(std::string(prefix) + ":");
    });
  }
};

/// The names of this process's socket descriptors: "socket:[1234]".
inline std::set<std::string> own_sockets() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // The list contains the descriptor that reads it.
    const std::string name = std::filesystem::read_symlink(entry.path(), gone);
    if (name.starts_with("socket:")) names.insert(name);
  }
  return names;
}

/// The TCP sockets of this process.
inline std::vector<TcpSocket> tcp_sockets() {
  const std::set<std::string> own = own_sockets();
  std::vector<TcpSocket> sockets;
  for (const char* const list : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(list);
    std::string line;
    std::getline(file, line);  // The header.
    while (std::getline(file, line)) {
      std::istringstream fields(line);
      std::string skipped;
      std::string inode;
      TcpSocket socket;
      fields >> skipped >> socket.address >> skipped >> socket.state;
      for (int i = 0; i < 5; ++i) fields >> skipped;
      fields >> inode;
      if (own.contains("socket:[" + inode + "]")) sockets.push_back(socket);
    }
  }
  return sockets;
}

}  // namespace tessera::testkit
