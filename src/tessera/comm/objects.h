#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"
#include "tessera/topology/rank.h"

/// Collectives for small objects: any type with a JSON conversion, sent as CBOR (binary JSON, which
/// keeps every number exactly). Unlike pickle, received data cannot run code. **Collective** and
/// blocking. The sizes may differ between ranks.
namespace tessera TSR_API {

/// An object as it is sent.
using Bytes = std::vector<uint8_t>;

/// **Collective.** The bytes of member `src`, on every rank.
Bytes broadcast_bytes(const Bytes& bytes, Member src, const Group& group);
/// In group-rank order.
std::vector<Bytes> all_gather_bytes(const Bytes& bytes, const Group& group);

/// **Collective.** The object of member `src`, on every rank.
template <class T>
T broadcast_object(const T& object, Member src, const Group& group) {
  const Bytes mine = nlohmann::json::to_cbor(nlohmann::json(object));
  return nlohmann::json::from_cbor(broadcast_bytes(mine, src, group)).template get<T>();
}

/// **Collective.** The objects of all members, by group rank.
template <class T>
std::vector<T> all_gather_object(const T& object, const Group& group) {
  std::vector<T> objects;
  for (const Bytes& bytes :
       all_gather_bytes(nlohmann::json::to_cbor(nlohmann::json(object)), group)) {
    objects.push_back(nlohmann::json::from_cbor(bytes).template get<T>());
  }
  return objects;
}

}  // namespace tessera
