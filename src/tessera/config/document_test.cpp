// docs/configuration.md has a row for each key, and no other.
#include <gtest/gtest.h>

#include <fstream>

#include "tessera/base/text.h"
#include "tessera/config/layers.h"

namespace tessera {
namespace {

std::string code(std::string_view text) {
  return text.empty() ? "" : concat("`", text, "`");
}

std::string flags_of(const ConfigField& field) {
  const bool both = !field.flag.empty() && !field.off_flag.empty();
  return concat(code(field.flag), both ? ", " : "", code(field.off_flag));
}

std::string row_of(const ConfigField& field, const TrainConfig& defaults) {
  const std::string value = field.otherwise.empty() ? code(to_toml(value_of(field, defaults)))
                                                    : std::string(field.otherwise);
  return concat("| ", code(field.name()), " | ", flags_of(field), " | ", type_name(field), " | ",
                value, " | ", field.help, " |");
}

std::vector<std::string> rows_of_the_page() {
  std::ifstream page(TESSERA_SOURCE_DIR "/docs/configuration.md");
  std::vector<std::string> rows;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| `")) rows.push_back(line);
  }
  return rows;
}

TEST(ConfigDocument, HasEveryKey) {
  const TrainConfig defaults = resolve({});
  std::vector<std::string> expected;
  for (const ConfigField& field : config_fields()) expected.push_back(row_of(field, defaults));
  EXPECT_EQ(join(rows_of_the_page(), "\n"), join(expected, "\n"));
}

}  // namespace
}  // namespace tessera
