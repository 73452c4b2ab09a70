#include "tessera/format/pickle.h"

#include <gtest/gtest.h>

#include <string>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using namespace std::string_literals;
using testkit::message_of;
using Kind = PickleValue::Kind;

PickleValue parse(const std::string& text) {
  return parse_pickle(std::as_bytes(std::span(text)), "f",
                      [](std::string_view name) { return name == "torch.Size"; });
}

std::string refusal(const std::string& text) {
  return message_of<DataError>([&] { parse(text); });
}

// {"a": torch.Size((4, 3)), "b": [1.5, None, True, -2]} in protocol 2.
const std::string kExample = "\x80\x02}(X\x01\x00\x00\x00"s +
                             "actorch\nSize\nK\x04K\x03\x86\x85RX\x01\x00\x00\x00"s +
                             "b](G\x3f\xf8\x00\x00\x00\x00\x00\x00N\x88J\xfe\xff\xff\xff"s + "eu."s;

TEST(Pickle, BuildsRecords) {
  const PickleValue value = parse(kExample);
  ASSERT_EQ(value.kind, Kind::kDict);
  const PickleValue& size = *value.find("a");
  EXPECT_EQ(size.kind, Kind::kRecord);
  EXPECT_EQ(size.text, "torch.Size");
  EXPECT_EQ(size.items[0].items[0].items[1].integer, 3);
  const PickleValue& list = *value.find("b");
  ASSERT_EQ(list.items.size(), 4U);
  EXPECT_EQ(list.items[0].number, 1.5);
  EXPECT_EQ(list.items[1].kind, Kind::kNone);
  EXPECT_EQ(list.items[3].integer, -2);
  EXPECT_EQ(value.find("c"), nullptr);
}

TEST(Pickle, RunsNothing) {
  EXPECT_EQ(refusal("cos\nsystem\n(X\x04\x00\x00\x00"s + "truetR."),
            "f: the pickle at offset 0: it names 'os.system', which is not known here; nothing was "
            "run");
  EXPECT_NE(refusal("\x80\x04\x8c\x08"s + "builtins\x8c\x04"s + "eval\x93."s).find("builtins.eval"),
            std::string::npos);
  EXPECT_NE(refusal("X\x01\x00\x00\x00"s + "a)R."s).find("something else than a class"),
            std::string::npos);
}

TEST(Pickle, RefusesEveryTruncation) {
  for (size_t size = 0; size < kExample.size(); ++size) {
    EXPECT_THROW(parse(kExample.substr(0, size)), DataError) << size;
  }
}

TEST(Pickle, RefusesWhatGrowsBeyondBounds) {
  EXPECT_NE(refusal(std::string(100, ']') + std::string(99, 'a') + ".").find("too deeply"),
            std::string::npos);
  // Each tuple holds the one before it twice.
  std::string laughs = "K\x01\x85q\x00"s;
  for (int i = 0; i < 40; ++i) laughs += "h\x00h\x00\x86q\x00"s;
  EXPECT_THROW(parse(laughs + "."), DataError);
  EXPECT_NE(refusal("]q\x00h\x00"s + "a.").find("twice"), std::string::npos) << "it holds itself";
  EXPECT_NE(refusal("X\xff\xff\xff\xff.").find("truncated"), std::string::npos);
  EXPECT_NE(refusal("i.").find("opcode 105"), std::string::npos);
}

}  // namespace
}  // namespace tessera
