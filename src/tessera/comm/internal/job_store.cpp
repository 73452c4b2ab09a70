#include "tessera/comm/internal/job_store.h"

#include "tessera/base/check.h"
#include "tessera/comm/internal/store_bytes.h"

namespace tessera::comm::detail {
namespace {

std::vector<std::string> with_time(std::chrono::milliseconds time,
                                   const std::vector<std::string>& keys) {
  std::vector<std::string> fields{std::to_string(time.count())};
  fields.insert(fields.end(), keys.begin(), keys.end());
  return fields;
}

}  // namespace

JobStore::JobStore(const StoreAddress& address, const std::string& secret,
                   std::chrono::milliseconds timeout)
    : Store(timeout), address_(address), secret_(secret), client_(address, secret, timeout) {}

c10::intrusive_ptr<c10d::Store> JobStore::clone() {
  return c10::make_intrusive<JobStore>(address_, secret_, timeout_);
}

std::vector<std::string> JobStore::ask(StoreOp op, std::vector<std::string> fields,
                                       std::chrono::milliseconds timeout) {
  StoreFrame answer = client_.ask({.op = op, .fields = std::move(fields)}, timeout);
  if (answer.op == StoreOp::kOk) return std::move(answer.fields);
  if (answer.op == StoreOp::kTimeout) {
    throw CommError(concat("the store at ", address_.to_string(),
                           " did not get the expected key within ", timeout.count(), " ms"));
  }
  throw CommError(concat("the store at ", address_.to_string(), " refused a request",
                         answer.fields.empty() ? "" : ": " + answer.fields.front()));
}

void JobStore::set(const std::string& key, const StoreBytes& value) {
  ask(StoreOp::kSet, {key, text_of(value)});
}

StoreBytes JobStore::compareSet(const std::string& key, const StoreBytes& expected,
                                const StoreBytes& desired) {
  return bytes_of(ask(StoreOp::kCompareSet, {key, text_of(expected), text_of(desired)}).at(0));
}

StoreBytes JobStore::get(const std::string& key) {
  return multiGet({key}).at(0);
}

int64_t JobStore::add(const std::string& key, int64_t value) {
  const auto sum = to_integer(ask(StoreOp::kAdd, {key, std::to_string(value)}).at(0));
  TSR_ASSERT(sum, "the store's sum is not a number");
  return *sum;
}

bool JobStore::deleteKey(const std::string& key) {
  return ask(StoreOp::kDelete, {key}).at(0) == "1";
}

bool JobStore::check(const std::vector<std::string>& keys) {
  return ask(StoreOp::kCheck, keys).at(0) == "1";
}

int64_t JobStore::getNumKeys() {
  return to_integer(ask(StoreOp::kCount, {}).at(0)).value_or(0);
}

void JobStore::wait(const std::vector<std::string>& keys) {
  wait(keys, timeout_);
}

void JobStore::wait(const std::vector<std::string>& keys,
                    const std::chrono::milliseconds& timeout) {
  ask(StoreOp::kWait, with_time(timeout, keys), timeout);
}

void JobStore::append(const std::string& key, const StoreBytes& value) {
  ask(StoreOp::kAppend, {key, text_of(value)});
}

std::vector<StoreBytes> JobStore::multiGet(const std::vector<std::string>& keys) {
  std::vector<StoreBytes> values;
  for (const std::string& value : ask(StoreOp::kGet, with_time(timeout_, keys), timeout_)) {
    values.push_back(bytes_of(value));
  }
  return values;
}

void JobStore::multiSet(const std::vector<std::string>& keys,
                        const std::vector<StoreBytes>& values) {
  TSR_CHECK(keys.size() == values.size(), "multiSet got ", keys.size(), " keys, but ",
            values.size(), " values; pass one value per key");
  std::vector<std::string> fields;
  for (size_t i = 0; i < keys.size(); ++i) {
    fields.push_back(keys[i]);
    fields.push_back(text_of(values[i]));
  }
  if (!fields.empty()) ask(StoreOp::kSet, std::move(fields));
}

}  // namespace tessera::comm::detail
