#include "tessera/draw/timeline_page.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tessera/draw/internal/markup.h"
#include "tessera/draw/internal/page_parts.h"

namespace tessera {

using namespace draw::detail;

namespace {

using Json = nlohmann::ordered_json;

Json task_json(const Task& task, const Timeline& timeline) {
  return {{"type", to_string(task.type)},
          {"words", action_words(task.type)},
          {"stage", task.stage},
          {"microbatch", task.microbatch},
          {"color", to_hex(timeline.color_of(task))}};
}

Json blocks_json(const Timeline& timeline) {
  Json blocks = Json::array();
  const auto needs = timeline.needs();
  for (size_t i = 0; i < needs.size(); ++i) {
    const TimelineBlock& block = timeline.blocks()[i];
    Json tasks = Json::array();
    for (const Task& task : block.action.tasks()) tasks.push_back(task_json(task, timeline));
    blocks.push_back({{"rank", block.rank.value},
                      {"start", block.time.start},
                      {"end", block.time.end},
                      {"tasks", std::move(tasks)},
                      {"needs", needs[i]}});
  }
  return blocks;
}

Json rank_json(const Timeline& timeline, GroupRank rank) {
  const RankTimes& times = timeline.times_of(rank);
  Json live = Json::array();
  for (const auto& [time, count] : timeline.live_of(rank)) live.push_back({time, count});
  return {{"busy", times.busy},
          {"bubble", times.bubble},
          {"gap", times.gap},
          {"peak", times.peak_activations},
          {"live", std::move(live)}};
}

Json timeline_json(const Timeline& timeline) {
  Json ranks = Json::array();
  for (int64_t rank = 0; rank < timeline.pp(); ++rank)
    ranks.push_back(rank_json(timeline, GroupRank{rank}));
  return {{"name", timeline.name()},
          {"shape", timeline.shape_text()},
          {"result", timeline.result_text()},
          {"makespan", timeline.makespan()},
          {"peak", timeline.peak_activations()},
          {"ranks", std::move(ranks)},
          {"blocks", blocks_json(timeline)}};
}

Json legend_json(std::span<const Timeline> timelines) {
  int64_t chunks = 1;
  for (const Timeline& timeline : timelines) chunks = std::max(chunks, timeline.num_chunks());
  Json legend = Json::array();
  for (const ActionType type : types_in(timelines)) {
    Json colors = Json::array();
    for (int64_t i = 0; i < chunks; ++i) colors.push_back(to_hex(action_color(type, i, chunks)));
    legend.push_back(
        {{"type", to_string(type)}, {"words", action_words(type)}, {"colors", std::move(colors)}});
  }
  return legend;
}

}  // namespace

std::string page_json(std::span<const Timeline> timelines, std::string_view subtitle) {
  Json json{{"subtitle", subtitle},
            {"end", common_axis(timelines).end},
            {"overlaps", has_overlaps(timelines)},
            {"legend", legend_json(timelines)},
            {"schedules", Json::array()}};
  for (const Timeline& timeline : timelines) {
    json["schedules"].push_back(timeline_json(timeline));
  }
  return page_text(std::move(json));
}

std::string draw_page(std::span<const Timeline> timelines, std::string_view title,
                      std::string_view subtitle) {
  return fill_page(kTimelinePage, title, page_json(timelines, subtitle));
}

}  // namespace tessera
