// `tessera ranks`: how ranks form groups, without starting any process.
#include "cli/ranks.h"

#include <algorithm>
#include <fstream>
#include <iostream>

#include "cli/parse.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "tessera/base/check.h"

namespace tessera::cli {
namespace {

constexpr int64_t kLargestWorld = 1 << 24;  // Ranks; a list of all of them takes 128 MB.
constexpr int64_t kLargestPicture = 1024;   // Ranks; a browser stays quick and cells readable.

struct Flags {
  std::optional<int64_t> world, tp, pp, cp, ep, etp, rank, gpus_per_node;
  std::optional<std::string> order;
  std::optional<std::string> svg;
  std::string color = "auto";
  bool json = false;

  bool is_example() const { return !(world || tp || pp || cp || ep || etp); }
};

void add_flags(CLI::App& app, Flags& flags) {
  add_integer(app, "--world", flags.world, "number of ranks");
  add_integer(app, "--tp", flags.tp, "tensor-parallel size (1)");
  add_integer(app, "--pp", flags.pp, "pipeline-parallel size (1)");
  add_integer(app, "--cp", flags.cp, "context-parallel size (1)");
  add_integer(app, "--ep", flags.ep, "expert-parallel size (1)");
  add_integer(app, "--etp", flags.etp, "tensor-parallel size of the experts (as tp)");
  app.add_option("--order", flags.order, "axes, fastest first (tp-cp-ep-dp-pp)");
  app.add_option_function<std::string>(
         "--dp",
         [](const std::string&) {
           throw ConfigError("--dp is not given but follows: it is world / (tp·cp·pp)");
         })
      ->group("");  // Not in the help; people try it.
  add_integer(app, "--rank", flags.rank, "show every group that this rank is in");
  add_integer(app, "--gpus-per-node", flags.gpus_per_node, "ranks that share a node (8)");
  app.add_option("--svg", flags.svg, "write the picture to this file");
  app.add_flag("--json", flags.json, "print JSON");
  app.add_option("--color", flags.color, "auto, always or never (auto)")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app.footer(
      "Without sizes an example is shown: --world 64 --tp 8 --pp 2.\n"
      "The data-parallel size is what remains: world / (tp·cp·pp).\n");
}

RanksQuery query_of(const Flags& flags) {
  RanksQuery query;
  const bool example = flags.is_example();
  TSR_CHECK(example || flags.world,
            "--world is missing: give the number of ranks, e.g. --world 64");
  query.world = flags.world.value_or(64);
  query.config = {.tensor_model_parallel_size = flags.tp.value_or(example ? 8 : 1),
                  .pipeline_model_parallel_size = flags.pp.value_or(example ? 2 : 1),
                  .context_parallel_size = flags.cp.value_or(1),
                  .expert_model_parallel_size = flags.ep.value_or(1),
                  .expert_tensor_parallel_size = flags.etp,
                  .create_gloo_process_groups = false};  // Twins of what is shown.
  if (flags.order) query.config.order = *flags.order;
  if (flags.rank) query.rank = GlobalRank{*flags.rank};
  query.gpus_per_node = flags.gpus_per_node.value_or(8);
  return query;
}

RanksView view_of(RanksQuery query) {
  TSR_CHECK(query.world <= kLargestWorld, "--world ", query.world,
            " is too large to be shown; choose at most ", kLargestWorld);
  Plan plan = megatron_plan(query.world, query.config);
  TSR_CHECK(query.gpus_per_node > 0, "--gpus-per-node ", query.gpus_per_node,
            " is not positive; a node has at least 1 GPU");
  TSR_CHECK(!query.rank || plan.layout("decoder").contains(*query.rank), "--rank ",
            query.rank.value_or(GlobalRank{}), " is outside the world; choose 0 to ",
            query.world - 1);
  return {std::move(query), std::move(plan)};
}

void write_svg(const RanksView& view, const std::string& path) {
  TSR_CHECK(view.world() <= kLargestPicture, "a picture of ", view.world(),
            " ranks cannot be read; --svg draws worlds of up to ", kLargestPicture);
  const auto [decoder, experts, order] = size_lines(view);
  const RankGrid grid =
      make_rank_grid(kinds_to_draw(view), view.query.gpus_per_node, view.query.rank);
  std::ofstream file(path);
  file << draw_svg(grid, headline(view), concat(decoder, "; experts ", experts, "; order ", order));
  file.close();
  if (!file) throw DataError(concat("cannot write ", path, "; is its folder there and writable?"));
}

}  // namespace

std::vector<GroupSpec> kinds_to_draw(const RanksView& view) {
  const std::span<const GroupSpec> specs = view.plan.specs();
  std::vector<GroupSpec> chosen;
  for (const char* label : {"tp", "cp", "dp", "pp", "etp", "ep", "edp"}) {
    const GroupSpec& spec = *std::ranges::find(specs, label, &GroupSpec::label);
    // The experts' groups are drawn where they are not the decoder's groups of the same axis.
    const std::string& axis = spec.groups.axes().front();
    const bool repeats =
        std::string_view(label) != axis && view.expert().axis(axis) == view.decoder().axis(axis);
    if (spec.groups.size() > 1 && !repeats) chosen.push_back(spec);
  }
  if (chosen.empty()) chosen.push_back(specs.back());  // A world of one rank.
  return chosen;
}

int run_ranks(const std::vector<std::string>& arguments) {
  CLI::App app("Shows how ranks form groups, without starting any process.", "tessera ranks");
  Flags flags;
  add_flags(app, flags);
  if (const auto done = parse(app, arguments)) return *done;

  const RanksView view = view_of(query_of(flags));
  if (flags.svg) write_svg(view, *flags.svg);
  if (flags.json) {
    write_ranks_json(view, std::cout);
    return kOk;
  }
  const TerminalOptions terminal{terminal_width(), color_mode(flags.color)};
  write_ranks_text(view, terminal, std::cout);
  if (flags.svg) std::cout << "\npicture: " << *flags.svg << "\n";
  if (flags.is_example()) {
    std::cout << "\nThis is an example. Your own layout: tessera ranks --world N --tp N --pp N\n"
                 "`tessera ranks --help` lists all flags; --svg FILE draws the picture.\n";
  }
  return kOk;
}

}  // namespace tessera::cli
