#include "tessera/draw/report_page.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace tessera {
namespace {

using nlohmann::json;

size_t count(const std::string& text, std::string_view part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

ReportPage some_page() {
  return {
      .title = "Run <1>",
      .summary = "It went down.",
      .charts = {{.title = "Loss",
                  .series = {{"training", {{0, 3}, {1, NAN}, {2, 1}}}, {"validation", {{2, 2}}}}},
                 {.title = "Speed", .unit = "tokens/s", .series = {{"speed", {{0, 8000}}}}}},
      .run = {{"command", "tessera train </script>"}, {"started", "today"}},
      .configuration = {{.title = "model", .facts = {{"layers", "2"}}}},
      .pipeline = {{.title = "A step", .words = "measured", .svg = "<svg></svg>"}}};
}

TEST(ReportPage, IsToldTheRun) {
  const json data = json::parse(page_json(some_page()));
  EXPECT_EQ(data["summary"], "It went down.");
  EXPECT_EQ(data["charts"][0]["series"][0]["points"],
            json::parse("[[0.0, 3.0], [1.0, null], [2.0, 1.0]]"));
  EXPECT_EQ(data["charts"][1]["unit"], "tokens/s");
  EXPECT_EQ(data["run"][0], json::parse(R"(["command", "tessera train </script>"])"));
  EXPECT_EQ(data["configuration"][0]["facts"][0][1], "2");
  EXPECT_EQ(data["pipeline"][0]["svg"], "<svg></svg>");
  EXPECT_TRUE(data["mesh"].empty());
}

TEST(ReportPage, LongRunsAreThinned) {
  ReportPage page;
  page.charts.push_back(
      {.title = "Loss", .series = {{"training", std::vector<CurvePoint>(50'000)}}});
  const json series = json::parse(page_json(page))["charts"][0]["series"][0];
  EXPECT_EQ(series["points"].size(), 4000U);
  EXPECT_EQ(series["means"], true);
}

TEST(ReportPage, StandsAlone) {
  const std::string page = draw_page(some_page());
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  EXPECT_EQ(count(page, "</script>"), 2U) << "those of the page itself";
  EXPECT_EQ(count(page, "@DATA@"), 0U);
  EXPECT_EQ(count(page, "src="), 0U);
  EXPECT_EQ(count(page, "<title>Run &lt;1&gt;</title>"), 1U);
}

TEST(ReportPage, BytesThatAreNoTextDoNoHarm) {
  ReportPage page = some_page();
  page.run.emplace_back("file", "\xff\xfe");
  EXPECT_TRUE(json::accept(page_json(page)));
}

}  // namespace
}  // namespace tessera
