#include "tessera/format/pickle.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <optional>

#include "tessera/base/error.h"
#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

using Kind = PickleValue::Kind;

constexpr int64_t kNodesPerByte = 8;  // A reference of two bytes may stand for a shape.
constexpr int64_t kDeepest = 32;

/// The machine that executes a pickle's opcodes, without calling anything.
class PickleMachine {
 public:
  PickleMachine(std::span<const std::byte> bytes, std::string_view origin,
                const std::function<bool(std::string_view)>& allows)
      : bytes_(bytes),
        origin_(origin),
        allows_(allows),
        most_nodes_(1000 + kNodesPerByte * static_cast<int64_t>(bytes.size())) {}

  PickleValue run() {
    while (true) {
      begin_ = at_;
      const auto opcode = static_cast<char>(byte());
      if (opcode == '.') break;
      execute(opcode);
    }
    check(stack_.size() == 1 && marks_.empty(), "it does not end with one value");
    return std::move(stack_.back());
  }

 private:
  [[noreturn]] void fail(const std::string& words) const {
    throw DataError(concat(origin_, ": the pickle at offset ", begin_, ": ", words));
  }
  void check(bool good, const char* words) const {
    if (!good) fail(words);
  }

  std::span<const std::byte> take(uint64_t count) {
    check(count <= bytes_.size() - at_, "it is truncated");
    const auto taken = bytes_.subspan(at_, count);
    at_ += count;
    return taken;
  }
  uint8_t byte() { return static_cast<uint8_t>(take(1)[0]); }
  uint64_t number(size_t width) {
    uint64_t value = 0;
    std::memcpy(&value, take(width).data(), width);  // Little-endian, as we are.
    return value;
  }
  std::string text(uint64_t length) {
    const auto taken = take(length);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  std::string line() {
    std::string text;
    for (auto c = static_cast<char>(byte()); c != '\n'; c = static_cast<char>(byte())) text += c;
    return text;
  }

  void push(PickleValue value) {
    nodes_ += value.nodes;
    check(nodes_ <= most_nodes_, "it has too many values");
    check(value.depth <= kDeepest, "it is nested too deeply");
    stack_.push_back(std::move(value));
  }
  void push_text(std::string text) { push({.kind = Kind::kText, .text = std::move(text)}); }
  void push_integer(int64_t integer) { push({.kind = Kind::kInteger, .integer = integer}); }

  PickleValue pop() {
    check(stack_.size() > (marks_.empty() ? 0 : marks_.back()), "a value is missing");
    PickleValue value = std::move(stack_.back());
    stack_.pop_back();
    return value;
  }
  std::vector<PickleValue> pop_to_mark() {
    check(!marks_.empty(), "a mark is missing");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<PickleValue> items(std::make_move_iterator(begin),
                                   std::make_move_iterator(stack_.end()));
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }
  PickleValue& top(Kind kind) {
    check(stack_.size() > (marks_.empty() ? 0 : marks_.back()) && stack_.back().kind == kind,
          "a value of another type stands here");
    return stack_.back();
  }

  static void add(PickleValue& to, PickleValue item) {
    to.nodes += item.nodes;
    to.depth = std::max(to.depth, item.depth + 1);
    to.items.push_back(std::move(item));
  }
  void add_all(Kind kind, std::vector<PickleValue> items) {
    PickleValue& to = top(kind);
    check(kind != Kind::kDict || items.size() % 2 == 0, "a key has no value");
    for (PickleValue& item : items) add(to, std::move(item));
    check(to.depth <= kDeepest, "it is nested too deeply");
  }
  void push_tuple(std::vector<PickleValue> items) {
    PickleValue tuple{.kind = Kind::kTuple};
    for (PickleValue& item : items) add(tuple, std::move(item));
    nodes_ -= tuple.nodes - 1;  // Its elements were counted.
    push(std::move(tuple));
  }
  void push_tuple_of(size_t count) {
    std::vector<PickleValue> items(count);
    for (size_t i = count; i > 0; --i) items[i - 1] = pop();
    push_tuple(std::move(items));
  }

  void push_global(const std::string& module, const std::string& name) {
    const std::string whole = concat(module, ".", name);
    if (!allows_(whole)) {
      fail(concat("it names '", visible(whole), "', which is not known here; nothing was run"));
    }
    push({.kind = Kind::kGlobal, .text = whole});
  }
  void push_record(std::string name, PickleValue arguments) {
    check(arguments.kind == Kind::kTuple, "arguments must be a tuple");
    PickleValue record{.kind = Kind::kRecord, .text = std::move(name)};
    nodes_ -= arguments.nodes;
    add(record, std::move(arguments));
    push(std::move(record));
  }
  void call() {
    PickleValue arguments = pop();
    PickleValue called = pop();
    check(called.kind == Kind::kGlobal, "something else than a class or function is called");
    push_record(std::move(called.text), std::move(arguments));
  }
  void build() {
    PickleValue state = pop();
    PickleValue& record = top(Kind::kRecord);
    check(record.items.size() == 1, "the state of an object is set twice");
    add(record, std::move(state));
    check(record.depth <= kDeepest, "it is nested too deeply");
  }

  // Values that may still change are not stored: later uses of them are refused.
  void store(uint64_t key) {
    check(!stack_.empty(), "a value is missing");
    const PickleValue& value = stack_.back();
    const bool changes = value.kind == Kind::kList || value.kind == Kind::kDict;
    check(memo_.size() <= bytes_.size(), "it stores too many values");
    memo_[key] = changes ? std::nullopt : std::optional(value);
    memo_nodes_ += changes ? 0 : value.nodes;
    check(memo_nodes_ <= most_nodes_, "it stores too many values");
  }
  void fetch(uint64_t key) {
    const auto at = memo_.find(key);
    if (at == memo_.end()) fail("it uses a value that it has not stored");
    const std::optional<PickleValue>& stored = at->second;
    if (!stored) fail("it uses a list or dictionary twice");
    push(*stored);
  }

  void execute(char opcode) {
    if (execute_scalar(opcode) || execute_container(opcode)) return;
    switch (opcode) {
      case 'c': {  // GLOBAL
        const std::string module = line();
        return push_global(module, line());
      }
      case '\x93': {  // STACK_GLOBAL
        const PickleValue name = pop();
        const PickleValue module = pop();
        check(name.kind == Kind::kText && module.kind == Kind::kText, "a name must be text");
        return push_global(module.text, name.text);
      }
      case 'R':     // REDUCE
      case '\x81':  // NEWOBJ
        return call();
      case 'b':
        return build();
      case 'Q': {  // BINPERSID
        PickleValue id = pop();
        return push_record("persistent id", std::move(id));
      }
      case '\x94':
        return store(memo_.size());
      case 'q':
        return store(byte());
      case 'r':
        return store(number(4));
      case 'h':
        return fetch(byte());
      case 'j':
        return fetch(number(4));
      default:
        fail(
            concat("opcode ", static_cast<int>(static_cast<uint8_t>(opcode)), " is not read here"));
    }
  }

  bool execute_scalar(char opcode) {
    switch (opcode) {
      case '\x80':  // PROTO
        check(byte() <= 5, "its protocol is newer than 5");
        return true;
      case '\x95':
        number(8);
        return true;  // FRAME
      case 'N':
        push({});
        return true;
      case '\x88':
        push({.kind = Kind::kBool, .integer = 1});
        return true;
      case '\x89':
        push({.kind = Kind::kBool});
        return true;
      case 'K':
        push_integer(byte());
        return true;
      case 'M':
        push_integer(static_cast<int64_t>(number(2)));
        return true;
      case 'J':
        push_integer(static_cast<int32_t>(number(4)));
        return true;
      case '\x8a':
        push_long();
        return true;
      case 'G': {  // BINFLOAT, big-endian.
        push({.kind = Kind::kFloat, .number = std::bit_cast<double>(__builtin_bswap64(number(8)))});
        return true;
      }
      case '\x8c':
        push_text(text(byte()));
        return true;
      case 'X':
        push_text(text(number(4)));
        return true;
      case '\x8d':
        push_text(text(number(8)));
        return true;
      default:
        return false;
    }
  }

  void push_long() {
    const size_t width = byte();
    check(width <= 8, "a number has more than 64 bits");
    if (width == 0) return push_integer(0);
    const auto shift = static_cast<unsigned>(64 - 8 * width);
    push_integer(static_cast<int64_t>(number(width) << shift) >> shift);
  }

  bool execute_container(char opcode) {
    switch (opcode) {
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case ')':
        push({.kind = Kind::kTuple});
        return true;
      case ']':
        push({.kind = Kind::kList});
        return true;
      case '}':
        push({.kind = Kind::kDict});
        return true;
      case 't':
        push_tuple(pop_to_mark());
        return true;
      case '\x85':
        push_tuple_of(1);
        return true;
      case '\x86':
        push_tuple_of(2);
        return true;
      case '\x87':
        push_tuple_of(3);
        return true;
      case 'e':
        add_all(Kind::kList, pop_to_mark());
        return true;
      case 'u':
        add_all(Kind::kDict, pop_to_mark());
        return true;
      case 'a': {
        std::vector<PickleValue> one;
        one.push_back(pop());
        add_all(Kind::kList, std::move(one));
        return true;
      }
      case 's': {
        std::vector<PickleValue> pair(2);
        pair[1] = pop();
        pair[0] = pop();
        add_all(Kind::kDict, std::move(pair));
        return true;
      }
      default:
        return false;
    }
  }

  std::span<const std::byte> bytes_;
  std::string_view origin_;
  const std::function<bool(std::string_view)>& allows_;
  int64_t most_nodes_;
  size_t at_ = 0;
  size_t begin_ = 0;  // Of the opcode, for messages.
  std::vector<PickleValue> stack_;
  std::vector<size_t> marks_;
  std::map<uint64_t, std::optional<PickleValue>> memo_;
  int64_t nodes_ = 0;
  int64_t memo_nodes_ = 0;
};

}  // namespace

const PickleValue* PickleValue::find(std::string_view key) const {
  if (kind != Kind::kDict) return nullptr;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i].kind == Kind::kText && items[i].text == key) return &items[i + 1];
  }
  return nullptr;
}

PickleValue parse_pickle(std::span<const std::byte> bytes, std::string_view origin,
                         const std::function<bool(std::string_view)>& allows) {
  return PickleMachine(bytes, origin, allows).run();
}

}  // namespace tessera
