// The groups of Megatron-Core's initialize_model_parallel, in its order of creation.
#include "tessera/plan/megatron/internal/specs.h"
#include "tessera/base/check.h"
#include "tessera/base/reversed.h"

namespace tessera::megatron::detail {
namespace {

// The callback's choice for every pipeline.
Chosen chosen_by(const EmbeddingRanks& callback, const GroupFamily& pipelines) {
  Chosen chosen;
  for (const RankGroup& pipeline : pipelines.listed_lines()) {
    chosen.lists.push_back(to_ranks(callback(to_integers(pipeline))));
  }
  return chosen;
}

class Specs {
 public:
  explicit Specs(const CheckedMegatron& checked)
      : config_(checked.config),
        decoder_(checked.decoder),
        expert_(checked.expert),
        nccl_(checked.nccl),
        timeout_(config_.distributed_timeout_minutes),
        instances_(config_.num_distributed_optimizer_instances) {}

  std::vector<GroupSpec> make() && {
    add_data_parallel();
    add_context_parallel();
    add("MODEL_PARALLEL_GROUP", "tp-pp", decoder_, {"tp", "pp"}, "mp");
    add("TENSOR_MODEL_PARALLEL_GROUP", "tp", decoder_, {"tp"}, "tp");
    add_pipelines();
    add("TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP", "tp-dp-cp", decoder_, {"tp", "dp", "cp"},
        "tp_dp_cp");
    add("TENSOR_AND_DATA_PARALLEL_GROUP", "tp-dp", decoder_, {"tp", "dp"}, "tp_dp");
    add("TENSOR_AND_CONTEXT_PARALLEL_GROUP", "tp-cp", decoder_, {"tp", "cp"}, "tp_cp");
    add("EXPERT_MODEL_PARALLEL_GROUP", "ep", expert_, {"ep"}, "ep");
    add("EXPERT_TENSOR_PARALLEL_GROUP", "etp", expert_, {"tp"}, "ep_tp");
    add("EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP", "etp-ep", expert_, {"tp", "ep"}, "tp_ep_mp");
    add("EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP", "etp-ep-pp", expert_, {"tp", "ep", "pp"},
        "tp_ep_pp");
    add_expert_data_parallel();
    add_optimizer_instances();
    return std::move(specs_);
  }

 private:
  NcclOptions options(std::string_view section) const {
    const auto at = nccl_.find(section);
    return at == nccl_.end() ? NcclOptions{} : at->second;
  }

  GroupSpec& add(std::string name, std::string label, GroupFamily groups,
                 std::string_view section) {
    specs_.push_back({.name = std::move(name),
                      .label = std::move(label),
                      .groups = std::move(groups),
                      .timeout = timeout_,
                      .options = options(section)});
    return specs_.back();
  }

  GroupSpec& add(std::string name, std::string label, const Layout& layout, AxisNames axes,
                 std::string_view section) {
    return add(std::move(name), std::move(label), GroupFamily(layout, std::move(axes)), section);
  }

  void add(std::vector<GroupSpec> specs) {
    for (GroupSpec& spec : specs) specs_.push_back(std::move(spec));
  }

  // Adds a twin of the last spec if twins are wanted.
  void add_gloo_twin(std::string name) {
    if (config_.create_gloo_process_groups)
      specs_.push_back(gloo_twin(specs_.back(), std::move(name)));
  }

  bool sharp(std::string_view group) const {
    return config_.use_sharp && config_.sharp_enabled_group.value_or("dp") == group;
  }

  void add_data_parallel() {
    const GroupFamily lines(decoder_, {"dp", "cp"});
    add_data_parallel_with_cp(lines);
    if (config_.hybrid_context_parallel) {
      add(hybrid_specs(decoder_, lines.axes(), options("dp_cp")));
    }
    add("DATA_PARALLEL_GROUP", "dp", decoder_, {"dp"}, "dp").lane = Lane::kReduce;
    add_gloo_twin("DATA_PARALLEL_GROUP_GLOO");
  }

  void add_data_parallel_with_cp(const GroupFamily& lines) {
    GroupSpec& main = add("DATA_PARALLEL_GROUP_WITH_CP", "dp-cp", lines, "dp_cp");
    main.lane = Lane::kReduce;
    main.sharp = sharp("dp");
    if (config_.create_all_gather_group) {
      GroupSpec twin = main;  // All-gathers overlap with reduce-scatters.
      twin.name = "DATA_PARALLEL_GROUP_WITH_CP_AG";
      twin.lane = Lane::kGather;
      twin.made = Made::kAfterGroup;
      specs_.push_back(std::move(twin));
    }
    add_gloo_twin("DATA_PARALLEL_GROUP_WITH_CP_GLOO");
    if (instances_ == 1) return;
    GroupSpec& part =
        add("INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP", "dp-cp part",
            GroupFamily(decoder_, lines.axes(), Cut{lines.size() / instances_}), "intra_dp_cp");
    part.lane = Lane::kReduce;
    part.sharp = sharp("dp");
    part.made = Made::kAfterLine;
    add_gloo_twin("INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP_GLOO");
  }

  void add_context_parallel() {
    add("CONTEXT_PARALLEL_GROUP", "cp", decoder_, {"cp"}, "cp");
    const auto& sizes = config_.hierarchical_context_parallel_sizes;
    add(hierarchical_specs(decoder_, {"cp"}, sizes,
                           {.description = "CONTEXT_PARALLEL_GROUP",
                            .label = "cp",
                            .nccl = std::vector(sizes.size(), options("hcp")),
                            .timeout = timeout_,
                            .made = Made::kAfterLine}));
  }

  void add_pipelines() {
    const auto& backend = config_.pipeline_model_parallel_comm_backend;
    GroupSpec& main = add("PIPELINE_MODEL_PARALLEL_GROUP", "pp", decoder_, {"pp"}, "pp");
    main.lane = Lane::kP2p;
    if (backend == "nccl") main.backend = GroupBackend::kNccl;
    if (backend == "ucc") {
      main.backend = GroupBackend::kUcc;
      main.options = {};
    }
    add_embedding("EMBEDDING_GROUP", "pp ends", "embd", "get_embedding_ranks",
                  config_.get_embedding_ranks, Ends{});
    add_embedding("POSITION_EMBEDDING_GROUP", "pp first", "pos_embd",
                  "get_position_embedding_ranks", config_.get_position_embedding_ranks, First{});
  }

  void add_embedding(std::string name, std::string label, std::string_view section,
                     std::string_view argument, const EmbeddingRanks& callback,
                     Selection selection) {
    const GroupFamily pipelines(decoder_, {"pp"});
    try {
      if (callback) selection = chosen_by(callback, pipelines);
      add(std::move(name), std::move(label),
          GroupFamily(decoder_, pipelines.axes(), std::move(selection)), section)
          .made = Made::kAfterLine;
    } catch (const ConfigError& error) {
      throw ConfigError(concat(argument, ": ", error.what()));
    }
  }

  void add_expert_data_parallel() {
    const GroupFamily lines(expert_, {"dp"});
    add("EXPERT_DATA_PARALLEL_GROUP", "edp", lines, "ep_dp").lane = Lane::kReduce;
    add_gloo_twin("EXPERT_DATA_PARALLEL_GROUP_GLOO");
    if (config_.create_gloo_process_groups)
      specs_.back().timeout = std::nullopt;  // As in Megatron.
    if (instances_ == 1) return;
    const std::vector<int64_t> sizes{lines.size() / instances_, instances_};
    add(hierarchical_specs(expert_, lines.axes(), sizes,
                           {.description = "EXPERT_DATA_PARALLEL_GROUP",
                            .label = "edp",
                            .nccl = {{options("intra_ep_dp"), options("inter_ep_dp")}},
                            .gloo_twins = config_.create_gloo_process_groups,
                            .timeout = timeout_,
                            .lane = Lane::kReduce,
                            .sharp = sharp("dp_replica"),
                            .made = Made::kAfterLine}));
  }

  // All ranks of an instance. Megatron concatenates the experts' model-parallel groups, so dp is
  // the slowest axis of its lists.
  void add_optimizer_instances() {
    const int64_t per_instance = expert_.axis("dp").size() / instances_;
    const Layout layout = expert_.split("dp", {{"instance", instances_}, {"dp", per_instance}});
    AxisNames axes{"dp"};
    const AxisNames fastest_first = expert_.axis_names();
    for (const std::string& axis : reversed(fastest_first)) {
      if (axis != "dp") axes.push_back(axis);
    }
    add("INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP", instances_ == 1 ? "world" : "instance",
        GroupFamily(layout, std::move(axes), Whole{}, Listing::kByName), "intra_dist_opt_instance");
  }

  const MegatronConfig& config_;
  const Layout& decoder_;
  const Layout& expert_;
  const NcclConfig& nccl_;
  const std::chrono::minutes timeout_;
  const int64_t instances_;
  std::vector<GroupSpec> specs_;
};

}  // namespace

std::vector<GroupSpec> megatron_specs(const CheckedMegatron& checked) {
  return Specs(checked).make();
}

}  // namespace tessera::megatron::detail
