#include "cli/ranks/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>

#include "cli/parse.h"
#include "tessera/base/check.h"
#include "tessera/base/checked.h"

namespace tessera::cli {
namespace {

void add_layout_flag(CLI::App& app, const std::string& names, const DialectFlag& flag,
                     FlagValues& values, const std::string& group) {
  // Stores every occurrence: the dialect refuses a second one.
  const auto store = [&values, name = flag.name](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) values.push_back({name, text});
  };
  app.add_option_function<std::vector<std::string>>(names, store, flag.help)
      ->expected(1)
      ->type_name(flag.value)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(group);
}

void add_own_flags(CLI::App& app, const Dialect& dialect, FlagValues& values) {
  for (const DialectFlag& flag : dialect.flags) {
    const std::string names = flag.shorthand.empty() ? flag.name : flag.name + "," + flag.shorthand;
    add_layout_flag(app, names, flag, values, concat("Layout, flags of ", dialect.name));
  }
}

// Hidden from the help: users of another dialect try these flags.
void add_foreign_flags(CLI::App& app, const Dialect& own, FlagValues& values) {
  std::set<std::string> known{"--dp"};  // See refuse_dp.
  for (const DialectFlag& flag : own.flags) known.insert({flag.name, flag.shorthand});
  for (const Dialect& dialect : dialects()) {
    for (DialectFlag flag : dialect.flags) {
      for (const std::string& name : {flag.name, flag.shorthand}) {
        if (name.empty() || !known.insert(name).second) continue;
        flag.name = name;
        add_layout_flag(app, name, flag, values, "");
      }
    }
  }
}

// Also hidden from the help: users try it.
void refuse_dp(CLI::App& app, const Dialect& dialect) {
  const auto flag = std::ranges::find(dialect.flags, "dp", &DialectFlag::meaning);
  if (flag != dialect.flags.end() && flag->name == "--dp") return;
  const std::string message =
      flag == dialect.flags.end()
          ? concat("--dp is not a flag of ", dialect.name,
                   "; dp follows from the other sizes: world / (tp·cp·pp)")
          : concat("--dp is not a flag of ", dialect.name, "; there it is ", flag->name);
  app.add_option_function<std::string>(
         "--dp", [message](const std::string&) { throw ConfigError(message); })
      ->group("");
}

void add_page_flags(CLI::App& app, RanksFlags& flags) {
  const std::string group = "Page (--html)";
  const auto add = [&](const std::string& flag, std::optional<int64_t>& value,
                       const std::string& help) {
    add_integer(app, flag, value, help);
    app.get_option(flag)->group(group);
  };
  add("--nodes-per-rack", flags.nodes_per_rack, "nodes that share a rack (all)");
  add("--hidden", flags.hidden, "hidden size of the model");
  add("--layers", flags.layers, "layers of the model");
  add("--micro-batch", flags.micro_batch, "sequences in a micro-batch (1)");
  add("--microbatches", flags.microbatches, "micro-batches in a step (1)");
  add("--experts-per-token", flags.experts_per_token, "experts per token (2)");
  add("--parameters", flags.parameters, "parameters (12·layers·hidden²)");
  add("--expert-parameters", flags.expert_parameters, "those of experts among them (0)");
}

void add_sequence_flags(CLI::App& app, RanksFlags& flags) {
  const std::string group = "A sequence over the ranks of a cp group";
  add_integer(app, "--sequence", flags.sequence, "tokens in a sequence");
  app.get_option("--sequence")->group(group);
  app.add_option("--cp-layout", flags.cp_layout,
                 concat(join(context_layouts(), ", "), " (", context_layouts().front(), ")"))
      ->type_name("NAME")
      ->group(group);
  app.add_option("--documents", flags.documents, "lengths of its documents, e.g. 512,1536")
      ->type_name("N,N,…")
      ->group(group);
}

DocumentLengths lengths_in(const std::string& text) {
  DocumentLengths lengths;
  for (const std::string_view part : split(text, ',')) {
    lengths.push_back(checked_integer(part, "--documents"));
  }
  return lengths;
}

}  // namespace

std::string dialect_of(const std::vector<std::string>& arguments) {
  std::string found = kDefaultDialect;
  for (size_t i = 0; i < arguments.size(); ++i) {
    for (const std::string flag : {"--dialect", "--from"}) {
      if (arguments[i] == flag && i + 1 < arguments.size()) found = arguments[i + 1];
      if (arguments[i].starts_with(flag + "=")) found = arguments[i].substr(flag.size() + 1);
    }
  }
  return found;
}

void add_ranks_flags(CLI::App& app, RanksFlags& flags) {
  const Dialect& dialect = find_dialect(flags.dialect);
  app.add_option("--dialect,--from", flags.dialect, "megatron, olmo, nemo or tessera (megatron)")
      ->type_name("NAME");
  add_integer(app, "--world", flags.world, "number of ranks");
  add_integer(app, "--gpus-per-node", flags.gpus_per_node, "ranks per node (8)");
  add_integer(app, "--rank", flags.rank, "show every group that this rank is in");
  app.add_option("--svg", flags.svg, "write the picture to this file")->type_name("FILE");
  app.add_option("--html", flags.html, "write a page that explains the layout to this file")
      ->type_name("FILE");
  app.add_option("--to", flags.to, "translate the layout into this dialect")->type_name("NAME");
  app.add_flag("--json", flags.json, "print JSON");
  add_color(app, flags.color);
  add_own_flags(app, dialect, flags.layout);
  add_foreign_flags(app, dialect, flags.layout);
  refuse_dp(app, dialect);
  add_sequence_flags(app, flags);
  add_page_flags(app, flags);
  app.footer(concat("Without sizes an example is shown: --world 64 ", to_string(dialect.example),
                    ".\nThe data-parallel size is the rest: world / (tp·cp·pp).\n",
                    "`--dialect NAME --help` lists the flags of that dialect; ",
                    "those of tessera are those of `tessera train`.\n"));
}

std::optional<TrainingStep> RanksFlags::step() const {
  const bool any = hidden || layers || micro_batch || microbatches || experts_per_token ||
                   parameters || expert_parameters;
  if (!any) return std::nullopt;
  TSR_CHECK(html, "sizes of a model (--hidden, --layers, …) are for the page; ",
            "add --html FILE, or leave them out");
  TSR_CHECK(hidden && layers && sequence, "the traffic of a step needs --hidden, --layers and ",
            "--sequence; ",
            !hidden   ? "--hidden"
            : !layers ? "--layers"
                      : "--sequence",
            " is missing");
  return TrainingStep{.hidden = *hidden,
                      .layers = *layers,
                      .sequence = *sequence,
                      .micro_batch = micro_batch.value_or(1),
                      .microbatches = microbatches.value_or(1),
                      .experts_per_token = experts_per_token.value_or(2),
                      .parameters = parameters,
                      .expert_parameters = expert_parameters.value_or(0)};
}

std::optional<SequenceSplit> RanksFlags::split(int64_t cp) const {
  const bool asked = cp_layout || documents || (sequence && !hidden && !layers);
  TSR_CHECK(!asked || cp > 1, "--sequence, --cp-layout and --documents show a sequence over cp ",
            "ranks, but cp is 1; raise it, or leave them out");
  if (cp == 1 || !(asked || sequence || html)) return std::nullopt;
  constexpr int64_t kTokensPerRank = 1024;
  const DocumentLengths lengths =
      documents
          ? lengths_in(*documents)
          : DocumentLengths{sequence ? *sequence : checked_multiply(kTokensPerRank, cp, "cp")};
  SequenceSplit result =
      make_sequence_split(cp_layout.value_or(context_layouts().front()), lengths, cp);
  TSR_CHECK(!sequence || *sequence == result.layout.length(), "--documents ",
            documents.value_or(""), " have ", result.layout.length(), " tokens, but --sequence is ",
            sequence.value_or(0), "; leave one out");
  return result;
}

void check_together(const RanksFlags& flags) {
  TSR_CHECK(!flags.nodes_per_rack || flags.html,
            "--nodes-per-rack is for the page; add --html FILE, or leave it out");
  TSR_CHECK(!flags.nodes_per_rack || *flags.nodes_per_rack > 0, "--nodes-per-rack ",
            flags.nodes_per_rack.value_or(0), " is not positive; a rack has at least 1 node");
  const char* const other = flags.svg ? "--svg" : flags.html ? "--html" : "--rank";
  TSR_CHECK(!flags.to || !(flags.svg || flags.html || flags.rank), "--to prints flags, not ranks; ",
            "leave ", other, " out, or ask for it without --to");
}

}  // namespace tessera::cli
