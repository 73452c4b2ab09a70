#include "tessera/schedule/verify.h"

#include "tessera/base/text.h"
#include "tessera/schedule/internal/dry_run.h"
#include "tessera/schedule/internal/row_check.h"

namespace tessera {

std::string Verification::to_string() const {
  const std::string_view sends_wait =
      sends == SendMode::kRendezvous ? "a send waits for its receive" : "sends are posted";
  return concat("complete, in order, no deadlock if ", sends_wait, " (", num_actions, " actions, ",
                num_messages, " messages, ", communicates ? "written in the table" : "implied",
                same_order ? "" : ", not in the same order on both sides", ")");
}

Verification verify(const Schedule& schedule) {
  schedule::detail::RowCheck rows(schedule);
  rows.run();
  schedule::detail::DryRun(schedule).run();
  return {.communicates = schedule.communicates(),
          .sends = schedule.sends(),
          .same_order = rows.same_order(),
          .num_actions = rows.num_actions(),
          .num_messages = rows.num_messages()};
}

}  // namespace tessera
