#include "tessera/launch/failure_block.h"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"
#include "tessera/base/wrap.h"
#include "tessera/topology/rank_text.h"

namespace tessera {
namespace {

constexpr size_t kNarrowest = 40;
constexpr size_t kWidest = 120;

std::string repeat(std::string_view piece, size_t times) {
  std::string text;
  for (size_t i = 0; i < times; ++i) text += piece;
  return text;
}

std::string indented(const std::vector<std::string>& lines, std::string_view indent) {
  std::string text;
  for (const std::string& line : lines) text += concat(indent, line, "\n");
  return text;
}

std::string place_of(const FailureBlock& block) {
  const std::string host = concat("on host ", visible(block.failure.host));
  return block.nnodes > 1 ? concat("of node ", block.failure.node, " ", host) : host;
}

int status_of(const Failure& failure) {
  return failure.signal != 0 ? static_cast<int>(failure.signal)
                             : static_cast<int>(failure.exit_code) << 8;
}

// The first sentence: which rank or node, where, and how it ended.
std::string cause(const FailureBlock& block) {
  const Failure& failure = block.failure;
  switch (failure.kind) {
    case Failure::Kind::kRank:
      return concat("rank ", failure.rank, " ", place_of(block),
                    failure.signal == 0 ? " ended with " : " was killed by ",
                    status_text(status_of(failure)));
    case Failure::Kind::kHang:
      return concat("rank ", failure.rank, " ", place_of(block), " hangs");
    case Failure::Kind::kResize:
      return concat("node ", failure.node, " on host ", visible(failure.host), " has joined");
    case Failure::Kind::kNodeLost:
      return concat("node ", failure.node, " on host ", visible(failure.host), " is lost");
    case Failure::Kind::kInterrupted:
      return concat(signal_name(failure.signal), " at the launcher of node ", failure.node,
                    " on host ", visible(failure.host));
    case Failure::Kind::kRendezvous:
      return "the rendezvous of the nodes failed";
  }
  return "";
}

std::string next_step(const Verdict& verdict, Failure::Kind kind) {
  if (verdict.restart > 0) {
    return concat("Restarting all ranks: restart ", verdict.restart, " of ", verdict.max_restarts,
                  ".");
  }
  if (kind == Failure::Kind::kInterrupted || kind == Failure::Kind::kRendezvous) return "";
  if (verdict.max_restarts == 0) return "";
  if (!verdict.healthy) {
    return "No restart: the job failed before all ranks had connected.";
  }
  return concat("No restarts left: ", verdict.max_restarts, " of ", verdict.max_restarts, " used.");
}

std::string end_text(const RankEnd& end, double grace_seconds) {
  if (end.stopped == 0) return concat("ended with ", status_text(end.status));
  if (end.stopped != SIGKILL) {
    const bool by_signal = WIFSIGNALED(end.status) && WTERMSIG(end.status) == end.stopped;
    return concat("stopped with ", signal_name(end.stopped),
                  by_signal ? "" : concat(", ended with ", status_text(end.status)));
  }
  return concat("killed with SIGKILL, ", grace_seconds, " s after SIGTERM");
}

// Ranks that ended in the same way share a line.
std::vector<std::pair<std::string, RankGroup>> alike(const FailureBlock& block) {
  std::vector<std::pair<std::string, RankGroup>> groups;
  for (const RankEnd& end : block.others) {
    const std::string text = end_text(end, block.grace_seconds);
    auto found = std::ranges::find(groups, text, &std::pair<std::string, RankGroup>::first);
    if (found == groups.end()) found = groups.insert(groups.end(), {text, {}});
    found->second.push_back(end.rank);
  }
  return groups;
}

std::string others_text(const FailureBlock& block) {
  std::vector<std::pair<std::string, std::string>> rows;
  size_t widest = 0;
  for (const auto& [text, ranks] : alike(block)) {
    rows.emplace_back(concat(ranks.size() == 1 ? "rank " : "ranks ", short_list(ranks)), text);
    widest = std::max(widest, length_of(rows.back().first));
  }
  std::string text;
  for (const auto& [ranks, how] : rows) {
    text += concat("    ", ranks, repeat(" ", widest - length_of(ranks) + 2), how, "\n");
  }
  return text;
}

std::string rule(std::string_view title, size_t width) {
  const std::string start = title.empty() ? "" : concat("── ", title, " ");
  const size_t used = std::min(width, length_of(start));
  return concat(start, repeat("─", width - used));
}

// A line of the log, wrapped to `width` characters.
std::vector<std::string> fitted(std::string_view line, size_t width) {
  if (length_of(line) <= width) return {std::string(line)};
  std::vector<std::string> lines;
  for (const std::string& piece : wrap(line, width)) {
    for (std::string_view rest = piece; !rest.empty();) {
      lines.emplace_back(first_characters(rest, width));
      rest.remove_prefix(lines.back().size());
    }
  }
  return lines;
}

// The log without lines that only repeat the message, possibly after words such as "what():"; cuts
// long lines of a log.
std::vector<std::string> new_lines_of(const Failure& failure) {
  constexpr size_t kEnough = 60;
  std::vector<std::string> lines = failure.tail;
  if (failure.message.empty()) return lines;
  const std::string head(split(failure.message, '\n').front().substr(0, kEnough));
  std::erase_if(lines, [&](std::string_view line) {
    return head.size() < kEnough ? line.ends_with(head) : line.find(head) != std::string::npos;
  });
  return lines;
}

std::string without_tabs(std::string_view line) {
  return join(split(line, '\t'), "    ");
}

std::string tail_text(const std::vector<std::string>& tail, size_t width, ColorMode color) {
  const std::string indent = concat("    ", faint("│", color), " ");
  std::string text;
  for (const std::string& line : tail) {
    text += indented(fitted(visible(without_tabs(line)), width - 6), indent);
  }
  return text;
}

}  // namespace

std::string FailureBlock::to_string(int64_t wanted, ColorMode color) const {
  const size_t width =
      std::clamp(static_cast<size_t>(std::max<int64_t>(wanted, 0)), kNarrowest, kWidest);
  const bool again = verdict.restart > 0;
  std::string text = concat(
      faint(rule(again ? "tessera run: a failure" : "tessera run: the job failed", width), color),
      "\n");
  for (const std::string& line : wrap(cause(*this), width - 2)) {
    text += concat("  ", bold(line, color), "\n");
  }
  if (!failure.message.empty()) {
    text += concat("\n", indented(wrap(visible_lines(failure.message), width - 4), "    "));
  }
  if (const auto tail = new_lines_of(failure); !tail.empty()) {
    text += concat("\n  the last lines of its ", failure.tail_name, "\n",
                   tail_text(tail, width, color));
  }
  if (!others.empty()) {
    text += concat("\n  the other ranks", nnodes > 1 ? concat(" of this node (", node, ")") : "",
                   "\n", others_text(*this));
  }
  if (!logs.empty()) text += concat("\n  logs: ", visible(logs), "\n");
  const std::string next = next_step(verdict, failure.kind);
  if (!next.empty()) text += concat("\n", indented(wrap(next, width - 2), "  "));
  return concat(text, faint(rule("", width), color), "\n");
}

}  // namespace tessera
