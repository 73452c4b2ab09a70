#include "tessera/draw/layout_page.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using nlohmann::json;

LayoutPage page_of(std::string_view dialect, int64_t world, const FlagValues& flags) {
  return {.title = "a < b",
          .layout = plan_in(find_dialect(dialect), {.world = world, .flags = flags})};
}

json data_of(const LayoutPage& page) {
  return json::parse(page_json(page));
}

const json& kind_of(const json& data, std::string_view label) {
  for (const json& kind : data["kinds"]) {
    if (kind["label"] == label) return kind;
  }
  throw std::runtime_error("no such kind");
}

TEST(LayoutPage, KindsOfTheSameGroupsAreOne) {
  const json data = data_of(page_of("megatron", 8, {{"--tp", "2"}, {"--pp", "2"}}));
  const json& tp = kind_of(data, "tp");
  EXPECT_EQ(tp["names"].size(), 4U) << "tp, tp-cp, etp and etp-ep";
  EXPECT_EQ(tp["names"][0], "TENSOR_MODEL_PARALLEL_GROUP");
  EXPECT_EQ(tp["group_of"], json::parse("[0,0,1,1,2,2,3,3]"));
  EXPECT_EQ(tp["main"], true);
  EXPECT_EQ(tp["often"], "in every layer");
  for (const json& kind : data["kinds"]) EXPECT_GT(kind["size"], 1) << kind["label"];
}

TEST(LayoutPage, RolesComeFirst) {
  const json data = data_of(page_of("megatron", 16, {{"--tp", "2"}, {"--pp", "2"}, {"--cp", "2"}}));
  std::vector<std::string> labels;
  for (const json& kind : data["kinds"]) {
    if (kind["has_role"]) labels.push_back(kind["label"]);
  }
  EXPECT_EQ(labels, (std::vector<std::string>{"tp", "cp", "dp", "pp", "dp-cp"}));
}

TEST(LayoutPage, RanksOutsideAKindAreInNone) {
  const json data = data_of(page_of("megatron", 4, {{"--pp", "4"}}));
  EXPECT_EQ(kind_of(data, "pp ends")["group_of"], json::parse("[0,-1,-1,0]"));
}

TEST(LayoutPage, TrafficIsThereWhereAStepIs) {
  LayoutPage page = page_of("olmo", 8, {{"--dp-type", "hsdp"}, {"--num-replicas", "2"}});
  page.machine = {.gpus_per_node = 4, .nodes_per_rack = 1};
  EXPECT_EQ(kind_of(data_of(page), "dp_shard")["traffic"], nullptr);
  page.step = {.hidden = 64, .layers = 2, .sequence = 8};
  const json data = data_of(page);
  const json& traffic = kind_of(data, "dp_shard")["traffic"];
  EXPECT_DOUBLE_EQ(traffic["bytes"], 3 * 2.0 * 12 * 2 * 64 * 64 * 3 / 4);
  EXPECT_DOUBLE_EQ(traffic["per_link"]["in node"], 8 * traffic["bytes"].get<double>());
  EXPECT_EQ(kind_of(data, "dp_replicate")["groups_per_link"]["across racks"], 4);
  EXPECT_EQ(data["symbols"].size(), 4U);
  LayoutPage dense = page_of("megatron", 8, {{"--tp", "2"}});  // Has a group of experts of size 1.
  dense.step = page.step;
  EXPECT_EQ(data_of(dense)["symbols"].size(), 4U);
}

TEST(LayoutPage, OneKindMayCarryTwoThings) {
  LayoutPage page =
      page_of("olmo", 8, {{"--dp-type", "hsdp"}, {"--shard-degree", "4"}, {"--ep", "4"}});
  page.step = {.hidden = 64, .layers = 2, .sequence = 8};
  const json data = data_of(page);
  const std::string formula = kind_of(data, "dp_shard")["traffic"]["formula"];
  EXPECT_EQ(formula, "4 · M · E · k · A/tp · (n−1)/n + 3 · W · (n−1)/n");
  EXPECT_EQ(data["symbols"].size(), 7U) << "experts have three more";
}

TEST(LayoutPage, HasEverythingInItAndNothingCanEndItsData) {
  LayoutPage page = page_of("megatron", 8, {});
  page.layout.notes.push_back({"note", "</script><script>alert(1)</script><!--", ""});
  const std::string html = draw_page(page);
  EXPECT_TRUE(html.starts_with("<!doctype html>"));
  EXPECT_EQ(html.find("alert(1)</script"), std::string::npos);
  EXPECT_NE(html.find("\\u003c/script>"), std::string::npos);
  EXPECT_NE(html.find("<title>a &lt; b</title>"), std::string::npos);
  std::string rest = html;
  const std::string_view svg = "http://www.w3.org/2000/svg";  // A namespace; it loads nothing.
  rest.erase(rest.find(svg), svg.size());
  EXPECT_EQ(rest.find("://"), std::string::npos) << "no address of anything outside";
  EXPECT_EQ(html.find("@DATA@"), std::string::npos);
}

TEST(LayoutPage, RefusesWorldsThatNobodyCanRead) {
  EXPECT_EQ(testkit::message_of<ConfigError>([] { draw_page(page_of("megatron", 4097, {})); }),
            "a page of 4097 ranks cannot be read; --html explains worlds of up to 4096");
}

}  // namespace
}  // namespace tessera
