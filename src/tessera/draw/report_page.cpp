#include "tessera/draw/report_page.h"

#include <nlohmann/json.hpp>

#include "tessera/draw/internal/axis.h"
#include "tessera/draw/internal/markup.h"
#include "tessera/draw/internal/page_parts.h"

namespace tessera {

using namespace draw::detail;

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostPoints = 4000;  // Per series; more are indistinguishable.

// Non-finite values become null.
Json series_json(const CurveSeries& series) {
  Json points = Json::array();
  for (const auto& [x, y] : thinned(series.points, kMostPoints)) points.push_back({x, y});
  return {{"name", series.name},
          {"means", series.points.size() > kMostPoints},
          {"points", std::move(points)}};
}

Json chart_json(const ReportChart& chart) {
  Json series = Json::array();
  for (const CurveSeries& one : chart.series) series.push_back(series_json(one));
  return {{"title", chart.title}, {"unit", chart.unit}, {"series", std::move(series)}};
}

Json facts_json(const std::vector<ReportFact>& facts) {
  Json list = Json::array();
  for (const auto& [name, value] : facts) list.push_back({name, value});
  return list;
}

Json pictures_json(const std::vector<ReportPicture>& pictures) {
  Json list = Json::array();
  for (const ReportPicture& picture : pictures) {
    list.push_back({{"title", picture.title}, {"words", picture.words}, {"svg", picture.svg}});
  }
  return list;
}

}  // namespace

std::string page_json(const ReportPage& page) {
  Json json{{"title", page.title},
            {"live", page.live},
            {"summary", page.summary},
            {"charts", Json::array()},
            {"run", facts_json(page.run)},
            {"configuration", Json::array()},
            {"mesh", pictures_json(page.mesh)},
            {"pipeline", pictures_json(page.pipeline)}};
  for (const ReportChart& chart : page.charts) json["charts"].push_back(chart_json(chart));
  for (const ReportTable& table : page.configuration) {
    json["configuration"].push_back({{"title", table.title}, {"facts", facts_json(table.facts)}});
  }
  return page_text(std::move(json));
}

std::string draw_page(const ReportPage& page) {
  return fill_page(kReportPage, page.title, page_json(page),
                   page.live.empty() ? Asks::kNobody : Asks::kItsServer);
}

}  // namespace tessera
