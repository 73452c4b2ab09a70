// golden_check [--part NAME] FILE…: recomputes every case of the peers' tables and compares.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>

#include "cli/parse.h"
#include "tessera/base/check.h"
#include "tests/golden/golden.h"

namespace tessera::golden {
namespace {

struct Tally {
  int64_t passed = 0;
  int64_t failed = 0;
};

// The cases that a rule decided, by "table id".
using Deviations = std::map<const Rule*, std::vector<std::string>>;

std::vector<Table> tables() {
  std::vector<Table> all = torch_tables();
  all.push_back(rank_generator_table());
  all.push_back(megatron_groups_table());
  all.push_back(olmo_mesh_table());
  all.push_back(olmo_pipeline_table());
  all.push_back(olmo_tensors_table());
  all.push_back(olmo_schedule_table());
  all.push_back(pipeline_table());
  all.push_back(tensor_parallel_table());
  all.push_back(context_balance_table());
  all.push_back(tokenizer_table());
  return all;
}

Table table_of(const std::filesystem::path& path) {
  const std::string file = path.filename();
  const std::string name = file.substr(0, file.find('.'));
  std::vector<std::string> known;
  for (Table& table : tables()) {
    if (table.name == name) return table;
    known.push_back(table.name);
  }
  throw ConfigError(concat(path.string(), ": no table is called '", name, "'; known are ",
                           join(known, ", "), did_you_mean(name, known)));
}

Json read(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw DataError(concat("cannot open ", path.string()));
  try {
    return Json::parse(file);
  } catch (const Json::exception& error) {
    throw DataError(concat(path.string(), " is not JSON: ", error.what()));
  }
}

Outcome run_case(const Table& table, const Case& test_case) {
  try {
    const auto part = std::ranges::find(table.parts, test_case.part, &Part::name);
    if (part == table.parts.end()) throw UnknownName("kind of case", test_case.part);
    if (!part->check) return {"an answer", concat("no code yet for part ", test_case.part)};
    return part->check(test_case.content);
  } catch (const UnknownName& error) {
    return {{}, {}, nullptr, error.what()};
  } catch (const std::exception& error) {
    return {"an answer", concat("failed with: ", error.what())};
  }
}

std::string full_name(const Table& table, const Case& test_case) {
  const Json& content = test_case.content;
  const Json id = content.is_object() ? content.value("id", Json("(no id)")) : content;
  return concat(table.name, " ", id.is_string() ? id.get<std::string>() : id.dump());
}

// Where two answers first differ, so that a long one need not be read as a whole.
void print_mismatch(const Table& table, const Case& test_case, const Outcome& outcome) {
  std::cout << full_name(table, test_case) << ":";
  if (!outcome.unknown.empty()) {
    std::cout << " " << outcome.unknown << "\n";
    return;
  }
  std::cout << "\n  expected " << outcome.expected << "\n  got      " << outcome.got << "\n";
  if (!outcome.expected.is_structured() || !outcome.got.is_structured()) return;
  for (const Json& change : Json::diff(outcome.expected, outcome.got)) {
    std::cout << "  at " << change.at("path").get<std::string>() << "\n";
    return;
  }
}

Tally check_file(const std::string& path, const std::string& part, Deviations& deviations) {
  const Table table = table_of(path);
  Tally tally;
  for (const Case& test_case : table.cases(read(path))) {
    if (!part.empty() && test_case.part != part) continue;
    const Outcome outcome = run_case(table, test_case);
    if (outcome.unknown.empty() && outcome.expected == outcome.got) {
      ++tally.passed;
      if (outcome.rule != nullptr) {
        deviations[outcome.rule].push_back(full_name(table, test_case));
      }
    } else {
      ++tally.failed;
      print_mismatch(table, test_case, outcome);
    }
  }
  TSR_CHECK(tally.passed + tally.failed > 0, path, " holds no case",
            part.empty() ? "" : concat(" of part '", part, "'"), "; a check of nothing is none");
  std::cout << table.name << ": " << tally.passed << " passed, " << tally.failed << " failed\n";
  return tally;
}

void print_deviations(const Deviations& deviations) {
  size_t total = 0;
  for (const auto& [rule, cases] : deviations) total += cases.size();
  std::cout << "deviations: " << total << "\n";
  for (const auto& [rule, cases] : deviations) {
    std::cout << "  " << cases.size() << " × " << rule->name << ": " << rule->reason << "\n";
    for (const std::string& name : cases) std::cout << "    " << name << "\n";
  }
}

int run(const std::vector<std::string>& arguments) {
  CLI::App app("Recomputes every case of the peers' tables and compares.", "golden_check");
  std::string part;
  std::vector<std::string> files;
  app.add_option("--part", part, "check only this part of each file");
  app.add_option("files", files, "tables, named after their kind: rank_generator.json, …")
      ->required();
  if (arguments.size() == 2 && arguments[0] == "--as-rank") return run_as_rank(arguments[1]);
  if (const auto done = cli::parse(app, arguments)) return *done;
  Deviations deviations;
  int code = cli::kOk;
  for (const std::string& file : files) {
    // A file that cannot be checked must not keep the others from being checked.
    const int result = cli::guarded(
        [&] { return check_file(file, part, deviations).failed == 0 ? cli::kOk : cli::kFailed; });
    code = std::max(code, result);
  }
  print_deviations(deviations);
  return code;
}

}  // namespace

Json refusal() {
  return "refused";
}

Json result_or_refusal(const std::function<Json()>& body) {
  try {
    return body();
  } catch (const ConfigError&) {
    return refusal();
  }
}

Outcome judge(Json expected, const std::function<Json()>& answer, const Rule* rule) {
  if (rule != nullptr && expected != refusal()) return {refusal(), result_or_refusal(answer), rule};
  return {std::move(expected), result_or_refusal(answer)};
}

Json errors_as_refusals(Json answer) {
  if (answer.is_object() && answer.contains("error")) return refusal();
  if (answer.is_structured()) {
    for (Json& entry : answer) entry = errors_as_refusals(entry);
  }
  return answer;
}

}  // namespace tessera::golden

int main(int argc, char** argv) {
  return tessera::cli::guarded([&] { return tessera::golden::run({argv + 1, argv + argc}); });
}
