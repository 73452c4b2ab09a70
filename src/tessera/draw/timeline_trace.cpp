#include "tessera/draw/timeline_trace.h"

#include <cmath>

#include "tessera/base/text.h"
#include "tessera/draw/trace_json.h"

namespace tessera {
namespace {

int64_t to_ns(double time) {
  return std::llround(time * 1e6);
}

class Writing {
 public:
  Writing(const Timeline& timeline, int64_t process, TraceWriter& writer)
      : timeline_(timeline), process_(process), writer_(writer) {}

  void write() {
    writer_.name_process(process_, concat(timeline_.name(), ": ", timeline_.shape_text()));
    for (int64_t rank = 0; rank < timeline_.pp(); ++rank) write_rank(GroupRank{rank});
    const auto needs = timeline_.needs();
    for (size_t i = 0; i < needs.size(); ++i) {
      for (const size_t need : needs[i]) write_arrow(need, i);
    }
  }

 private:
  TraceTrack track(GroupRank rank) const {
    return {process_, rank.value + 1};
  }  // Thread 0 is the process itself.

  void write_rank(GroupRank rank) {
    writer_.name_thread(track(rank), concat("rank ", rank));
    for (const TimelineBlock& block : timeline_.blocks_of(rank)) write_block(block);
    const std::string counter = concat("activations, rank ", rank);
    for (const auto& [time, live] : timeline_.live_of(rank)) {
      writer_.counter({track(rank), to_ns(time)}, counter, static_cast<double>(live));
    }
  }

  void write_block(const TimelineBlock& block) {
    TraceSpan span{.track = track(block.rank),
                   .name = to_string(block.action),
                   .begin_ns = to_ns(block.time.start),
                   .end_ns = to_ns(block.time.end)};
    for (const Task& task : block.action.tasks()) {
      span.details.emplace_back(action_words(task.type),
                                concat("stage ", task.stage, ", microbatch ", task.microbatch));
    }
    writer_.span(span);
  }

  void write_arrow(size_t from, size_t to) {
    const TimelineBlock& maker = timeline_.blocks()[from];
    const TimelineBlock& user = timeline_.blocks()[to];
    if (maker.rank == user.rank) return;  // The order within the row already shows it.
    writer_.flow(std::vector<TracePoint>{{track(maker.rank), to_ns(maker.time.start)},
                                         {track(user.rank), to_ns(user.time.start)}},
                 to_string(maker.action));
  }

  const Timeline& timeline_;
  int64_t process_;
  TraceWriter& writer_;
};

}  // namespace

void write_timeline_trace(std::span<const Timeline> timelines, std::ostream& out) {
  TraceWriter writer(out);
  for (size_t i = 0; i < timelines.size(); ++i) {
    Writing(timelines[i], static_cast<int64_t>(i), writer).write();
  }
  writer.finish();
}

}  // namespace tessera
