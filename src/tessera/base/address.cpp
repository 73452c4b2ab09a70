#include "tessera/base/address.h"

#include "tessera/base/check.h"

namespace tessera {

AddressList resolve(const std::string& host, int64_t port, int socket_type,
                    std::string_view advice) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = socket_type;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  TSR_CHECK(error == 0, "cannot resolve host '", host, "' (", gai_strerror(error), "); ", advice);
  return AddressList(list);
}

}  // namespace tessera
