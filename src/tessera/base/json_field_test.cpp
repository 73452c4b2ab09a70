#include "tessera/base/json_field.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;

const JsonSource kFile{.origin = "f.json", .what = "dump"};
const JsonSource kCaller{
    .origin = "", .what = "config", .root = "Config", .author = JsonAuthor::kCaller};
const JsonSource kPeer{.origin = "a peer", .what = "message", .author = JsonAuthor::kPeer};

const nlohmann::json kDocument = nlohmann::json::parse(
    R"({"shape": [3, -1], "name": "a\u001bb", "none": null, "huge": 18446744073709551615})");

TEST(JsonField, ReadsValues) {
  const JsonField root(kDocument, kFile);
  EXPECT_EQ(root.at("shape").list([](const JsonField& size) { return size.integer(); }),
            (std::vector<int64_t>{3, -1}));
  EXPECT_EQ(root.at("name").raw_text(),
            "a\x1b"
            "b");
  EXPECT_EQ(root.at("name").text(), "a\\x1bb");
  EXPECT_TRUE(root.has("none"));
  EXPECT_FALSE(root.has_value("none"));
  EXPECT_FALSE(root.has_value("other"));
}

TEST(JsonField, RefusalsNameThePlaceAndAreTheAuthorsError) {
  const auto read = [](const JsonSource& source, auto reader) {
    reader(JsonField(kDocument, source));
  };
  const auto sizes = [](const JsonField& root) {
    root.at("shape").list([](const JsonField& size) { return size.integer(0); });
  };
  EXPECT_EQ(message_of<DataError>([&] { read(kFile, sizes); }),
            "f.json: shape[1] is -1; expected a whole number of at least 0");
  EXPECT_EQ(message_of<ConfigError>([&] { read(kCaller, sizes); }),
            "Config.shape[1] is -1; expected a whole number of at least 0");
  EXPECT_EQ(message_of<CommError>([&] { read(kPeer, sizes); }),
            "a peer: shape[1] is -1; expected a whole number of at least 0");
  EXPECT_EQ(message_of<DataError>([&] {
              read(kFile, [](const JsonField& root) { return root.at("huge").integer(); });
            }),
            "f.json: huge is 18446744073709551615; expected a 64-bit whole number");
  EXPECT_EQ(message_of<DataError>(
                [&] { read(kFile, [](const JsonField& root) { return root.at("rank"); }); }),
            "f.json: the dump has no field 'rank'");
  EXPECT_EQ(message_of<DataError>(
                [&] { read(kFile, [](const JsonField& root) { root.refuse("a list"); }); }),
            "f.json: the dump is an object; expected a list");
}

TEST(JsonField, KeysAreChecked) {
  const JsonField root(kDocument, kCaller);
  const std::vector<std::string> all{"huge", "name", "none", "shape"};
  EXPECT_NO_THROW(root.check_keys(all));
  const std::vector<std::string> some{"huge", "nome", "none", "shape"};
  EXPECT_EQ(message_of<ConfigError>([&] { root.check_keys(some); }),
            "Config has no field 'name'; did you mean 'nome'?");
  const std::vector<std::string> others{"huge"};
  EXPECT_EQ(message_of<ConfigError>([&] { root.check_keys(others); }),
            "Config has no field 'name'; it has huge");
}

TEST(JsonField, TextsAreParsedWithCare) {
  EXPECT_EQ(parse_json("[1]", kFile), nlohmann::json::array({1}));
  EXPECT_EQ(message_of<DataError>([] { (void)parse_json("{", kFile); }),
            "f.json: broken JSON near byte 0; was it truncated, or is it not a dump?");
  EXPECT_EQ(message_of<DataError>([] { (void)parse_json(R"({"a": 1, "a": 2})", kFile); }),
            "f.json: \"a\" appears twice near byte 11");
  EXPECT_EQ(message_of<CommError>([] { (void)parse_json(std::string(100'000, '['), kPeer); }),
            "a peer: nested too deeply for a message near byte 9");
}

}  // namespace
}  // namespace tessera
