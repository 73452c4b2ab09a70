#include "tessera/draw/unit_timeline.h"

#include <algorithm>

#include "tessera/draw/internal/unit_colors.h"
#include "tessera/draw/timeline.h"

namespace tessera {
namespace draw::detail {

// Passes have the colours of a pipeline's; the others are distinguishable from them with any kind
// of colour vision.
Rgb unit_color(UnitAction action) {
  switch (action) {
    case UnitAction::kGather:
      return {92, 196, 160};
    case UnitAction::kForward:
      return action_color(ActionType::kForward, 0, 1);
    case UnitAction::kBackward:
      return action_color(ActionType::kBackward, 0, 1);
    case UnitAction::kReduce:
      return {214, 160, 206};
    case UnitAction::kHeld:
      return {205, 211, 222};
    case UnitAction::kExchange:
      return {130, 205, 216};
    case UnitAction::kAttend:
      return {178, 164, 226};
    default:
      return {240, 208, 66};
  }
}

std::string_view unit_words(UnitAction action) {
  switch (action) {
    case UnitAction::kGather:
      return "gather in flight";
    case UnitAction::kForward:
      return "forward";
    case UnitAction::kBackward:
      return "backward";
    case UnitAction::kReduce:
      return "reduction in flight";
    case UnitAction::kHeld:
      return "parameters in memory";
    case UnitAction::kExchange:
      return "exchange in flight";
    case UnitAction::kAttend:
      return "attention product";
    default:
      return "compute waits";
  }
}

std::vector<UnitAction> shown_actions(const UnitTimeline& timeline) {
  const auto shows = [](UnitAction action) {
    return [action](const UnitRow& row) {
      return std::ranges::find(row.events, action, &UnitEvent::action) != row.events.end();
    };
  };
  std::vector<UnitAction> actions;
  for (const UnitAction action : kUnitActions) {
    const auto in = shows(action);
    if (in(timeline.compute) || in(timeline.exchange) || std::ranges::any_of(timeline.units, in)) {
      actions.push_back(action);
    }
  }
  return actions;
}

}  // namespace draw::detail

namespace {

constexpr double kMsPerSecond = 1e3;

// What is drawn over what.
int layer_of(const UnitEvent& event) {
  switch (event.action) {
    case UnitAction::kHeld:
      return 0;
    case UnitAction::kGather:
    case UnitAction::kReduce:
      return 1;
    case UnitAction::kForward:
    case UnitAction::kBackward:
      return 2;
    case UnitAction::kAttend:
      return 3;
    default:
      return 4;
  }
}

UnitRow& row_of(std::vector<UnitRow>& rows, const std::string& name) {
  const auto found = std::ranges::find(rows, name, &UnitRow::name);
  if (found != rows.end()) return *found;
  return rows.emplace_back(UnitRow{.name = name});
}

bool is_computed(UnitAction action) {
  return action == UnitAction::kForward || action == UnitAction::kBackward ||
         action == UnitAction::kAttend;
}

}  // namespace

UnitTimeline unit_timeline(const UnitRecord& record) {
  UnitTimeline timeline{.end = record.seconds * kMsPerSecond,
                        .compute = {.name = "compute"},
                        .exchange = {.name = "exchange"}};
  std::vector<UnitEvent> events = record.events;
  std::ranges::stable_sort(events, {}, [](const UnitEvent& event) { return event.time.start; });
  for (UnitEvent& event : events) {
    event.time = {event.time.start * kMsPerSecond, event.time.end * kMsPerSecond};
    const bool waits = event.action == UnitAction::kWait;
    const bool exchanges = event.action == UnitAction::kExchange;
    if (waits || is_computed(event.action)) timeline.compute.events.push_back(event);
    if (exchanges) timeline.exchange.events.push_back(event);
    if (!waits && !exchanges) row_of(timeline.units, event.unit).events.push_back(event);
  }
  std::ranges::stable_sort(timeline.compute.events, {}, layer_of);
  for (UnitRow& row : timeline.units) std::ranges::stable_sort(row.events, {}, layer_of);
  return timeline;
}

}  // namespace tessera
