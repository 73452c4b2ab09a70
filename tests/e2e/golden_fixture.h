#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/testkit/process.h"
#include "tests/testkit/temporary_folder.h"

/// golden_check on tables with changes.
namespace tessera {

class GoldenCheck : public testing::Test {
 protected:
  static nlohmann::json table(const std::string& name) {
    return nlohmann::json::parse(std::ifstream(std::filesystem::path(TESSERA_GOLDEN_DIR) / name));
  }

  static nlohmann::json case_of(const nlohmann::json& content, const std::string& id) {
    for (const nlohmann::json& one : content["cases"]) {
      if (one["id"] == id) return one;
    }
    ADD_FAILURE() << "no case " << id;
    return {};
  }

  // Checks the content as a file of this name.
  testkit::Finished check(const std::string& name, const nlohmann::json& content,
                          const std::string& flags = "") {
    return testkit::run(TESSERA_GOLDEN_CHECK " " + flags + " " +
                        folder_.file(name, content.dump()));
  }

  // One answer of a case, by its place, and what it is changed to.
  struct Change {
    std::string id;
    std::string at;
    nlohmann::json value;
  };

  // Each change makes its case fail; all of them in one file.
  void expect_each_fails(const std::string& name, const std::vector<Change>& changes,
                         const std::string& flags = "") {
    const nlohmann::json content = table(name);
    nlohmann::json cases = nlohmann::json::array();
    for (const auto& [id, at, value] : changes) {
      nlohmann::json one = case_of(content, id);
      ASSERT_TRUE(one.contains(nlohmann::json::json_pointer(at))) << id << at;
      one[nlohmann::json::json_pointer(at)] = value;
      one["id"] = id + at;
      cases.push_back(one);
    }
    const std::string table_name = name.substr(0, name.find('.'));
    const testkit::Finished finished = check(name, {{"cases", cases}}, flags);
    const std::string tally =
        table_name + ": 0 passed, " + std::to_string(changes.size()) + " failed\n";
    EXPECT_EQ(finished.code, 1);
    if (finished.out.find(tally) != std::string::npos) return;
    for (const nlohmann::json& one : cases) {
      const std::string id = one["id"];
      if (finished.out.find(table_name + " " + id + ":") != std::string::npos) continue;
      ADD_FAILURE() << id << " was changed, and passes";
    }
  }

  const testkit::TemporaryFolder folder_;
};

}  // namespace tessera
