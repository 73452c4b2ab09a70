// `tessera inspect`: lists the tensors of a file or folder of weights and checks that it is
// complete.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <span>

#include "cli/json_text.h"
#include "cli/parse.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "tessera/base/check.h"
#include "tessera/base/terminal_text.h"
#include "tessera/format/npy.h"
#include "tessera/format/weight_files.h"

namespace tessera::cli {
namespace {

struct Flags {
  std::string path;
  bool json = false;
};

/// A tensor and the file that holds it.
struct Row {
  TensorSpec spec;
  int64_t bytes = 0;
  std::string file;
};

Row row_of(const StoredTensor& tensor, const std::string& path) {
  return {tensor.spec, tensor.num_bytes(), std::filesystem::path(path).filename()};
}

void check_nothing_left(const WeightFiles& weights, const std::string& folder) {
  constexpr size_t kShown = 3;
  const std::vector<std::string> left = weights.left_over();
  if (left.empty()) return;
  const std::span<const std::string> first(left.data(), std::min(kShown, left.size()));
  throw DataError(concat(folder, " is not whole: its index leaves out ", join(first, ", "),
                         left.size() > kShown ? concat(" and ", left.size() - kShown, " more") : "",
                         "; is ", kWeightIndex, " of another model?"));
}

std::vector<Row> rows_of_folder(const std::string& folder) {
  const WeightFiles weights(folder);
  check_nothing_left(weights, folder);
  std::vector<Row> rows;
  for (const SafetensorsFile& file : weights.files()) {
    for (const StoredTensor& tensor : file.tensors()) rows.push_back(row_of(tensor, file.path()));
  }
  return rows;
}

std::vector<Row> rows_of_npy(const std::string& path) {
  const MappedFile file(path);
  const NpyHeader header = parse_npy(file.bytes(), path);
  const std::string name = std::filesystem::path(path).filename();
  return {{.spec = {.name = name, .dtype = header.dtype, .shape = header.shape},
           .bytes = *bytes_of(header.dtype, header.shape),
           .file = name}};
}

std::vector<Row> rows_of(const std::string& path) {
  if (std::filesystem::is_directory(path)) return rows_of_folder(path);
  if (path.ends_with(".npy")) return rows_of_npy(path);
  const SafetensorsFile file(path);
  std::vector<Row> rows;
  for (const StoredTensor& tensor : file.tensors()) rows.push_back(row_of(tensor, path));
  return rows;
}

int64_t elements(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

void write_text(const std::string& path, const std::vector<Row>& rows) {
  int64_t bytes = 0;
  int64_t numbers = 0;
  Table table;
  table.add_column("tensor");
  table.add_column("dtype");
  table.add_column("shape");
  table.add_column("bytes", Align::kRight);
  table.add_column("file");
  for (const Row& row : rows) {
    table.add_row({row.spec.name, std::string(to_string(row.spec.dtype)),
                   join(row.spec.shape, " × "), with_thousands(row.bytes), row.file});
    bytes += row.bytes;
    numbers += elements(row.spec.shape);
  }
  std::cout << table.to_string() << '\n'
            << visible(path) << " is whole: " << rows.size()
            << (rows.size() == 1 ? " tensor, " : " tensors, ") << with_thousands(numbers)
            << " numbers, " << with_thousands(bytes) << " bytes\n";
}

void write_json(const std::vector<Row>& rows) {
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    tensors.push_back({{"name", row.spec.name},
                       {"dtype", to_string(row.spec.dtype)},
                       {"shape", row.spec.shape},
                       {"bytes", row.bytes},
                       {"file", row.file}});
  }
  data_out() << json_text(nlohmann::ordered_json{{"tensors", tensors}}, 2) << '\n';
}

}  // namespace

int run_inspect(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Lists the tensors of a safetensors or .npy file or of a Hugging Face folder, and "
      "checks that nothing is missing, overlaps or is unused.",
      "tessera inspect");
  Flags flags;
  app.add_option("path", flags.path, "a file or a folder")->type_name("FILE|DIR");
  app.add_flag("--json", flags.json, "write JSON");
  if (const auto done = parse(app, arguments)) return *done;

  TSR_CHECK(!flags.path.empty(), "no file was given, e.g. tessera inspect model.safetensors");
  const std::vector<Row> rows = rows_of(flags.path);
  flags.json ? write_json(rows) : write_text(flags.path, rows);
  return kOk;
}

}  // namespace tessera::cli
