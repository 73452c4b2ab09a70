#include "tessera/plan/nccl_options.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;

TEST(NcclConfig, ReadsEveryOption) {
  const NcclConfig config = parse_nccl_config(
      "dp_cp:\n  min_ctas: 4\n  max_ctas: 16\n  cga_cluster_size: 2\n"
      "tp: {net_name: Socket, is_high_priority_stream: True}\nep: {}\n",
      "x.yaml");
  EXPECT_EQ(config.size(), 3U);
  EXPECT_EQ(config.at("dp_cp"),
            (NcclOptions{.cga_cluster_size = 2, .min_ctas = 4, .max_ctas = 16}));
  EXPECT_EQ(config.at("tp"), (NcclOptions{.high_priority_stream = true, .net_name = "Socket"}));
  EXPECT_EQ(config.at("ep"), NcclOptions{});
}

TEST(NcclConfig, HighPriorityWinsOverTheFile) {
  NcclConfig config = parse_nccl_config("tp: {is_high_priority_stream: false, max_ctas: 8}", "x");
  set_high_priority(config, std::vector<std::string>{"tp", "mp"});
  EXPECT_EQ(config.at("tp"), (NcclOptions{.high_priority_stream = true, .max_ctas = 8}));
  EXPECT_EQ(config.at("mp"), NcclOptions{.high_priority_stream = true});
}

std::string refused(const std::string& yaml) {
  return message_of<ConfigError>([&] { parse_nccl_config(yaml, "x.yaml"); });
}

void expect_refused(const std::string& yaml, std::string_view begin, std::string_view part) {
  const std::string message = refused(yaml);
  EXPECT_TRUE(message.starts_with(begin)) << yaml << "\n" << message;
  EXPECT_NE(message.find(part), std::string::npos) << yaml << "\n" << message;
}

TEST(NcclConfigErrors, UnknownNamesComeWithTheNearest) {
  expect_refused("tp: {}\ndp_pc: {max_ctas: 1}", "x.yaml, line 2: section 'dp_pc' is unknown",
                 "did you mean 'dp_cp'?");
  expect_refused("tp:\n  max_ctas: 8\n  mim_ctas: 1", "x.yaml, line 3: NCCL option 'mim_ctas'",
                 "did you mean 'min_ctas'?");
  NcclConfig config;
  EXPECT_NE(message_of<ConfigError>([&] {
              set_high_priority(config, std::vector<std::string>{"ep_db"});
            }).find("high-priority group 'ep_db' is unknown"),
            std::string::npos);
}

TEST(NcclConfigErrors, BrokenYamlNamesTheLine) {
  expect_refused("tp: {max_ctas: 8}\ndp: {max_ctas: 8\n", "x.yaml, line 3: broken YAML: ", "");
  expect_refused("a: b: c", "x.yaml, line 1: broken YAML: ", "");
}

TEST(NcclConfigErrors, WrongForms) {
  for (const char* yaml : {"", "# only words", "- tp", "tp", "tp: {}\n---\ndp: {}\n", ",tptp"}) {
    expect_refused(yaml, "x.yaml, line 1: expected a mapping", "'tp: {max_ctas: 16}'");
  }
  expect_refused("dp:\n", "x.yaml, line 1: section 'dp' holds no options", "min_ctas");
  expect_refused("dp: 3", "x.yaml, line 1: section 'dp' holds no options", "");
  expect_refused("tp: {}\ntp: {}", "x.yaml, line 2: section 'tp' appears twice", "");
  expect_refused("tp:\n  max_ctas: 1\n  max_ctas: 2",
                 "x.yaml, line 3: key 'max_ctas' appears twice", "");
  expect_refused("tp: {max_ctas: [1]}", "x.yaml, line 1: max_ctas is not a scalar", "");
  expect_refused("[tp]: {}", "x.yaml, line 1: a section's name is not a scalar", "");
}

TEST(NcclConfigErrors, WrongValues) {
  expect_refused("tp: {max_ctas: many}", "", "max_ctas 'many' is not a whole number from 1");
  expect_refused("tp: {min_ctas: 0}", "", "min_ctas '0' is not a whole number from 1");
  expect_refused("tp: {max_ctas: 99999999999}", "", "is not a whole number");
  expect_refused("tp: {max_ctas: ~}", "", "max_ctas is not a scalar");
  expect_refused("tp: {cga_cluster_size: 9}", "", "is not a whole number from 0 to 8");
  expect_refused("tp: {is_high_priority_stream: 2}", "", "'2' is neither true nor false");
  expect_refused("cp:\n  net_name: efa", "x.yaml, line 2: net_name 'efa'", "choose IB or socket");
  expect_refused("cp:\n  min_ctas: 4\n  max_ctas: 2", "x.yaml, line 1: section 'cp' has min_ctas 4",
                 "min_ctas ≤ max_ctas");
}

TEST(NcclConfigErrors, AFileThatIsNotThere) {
  EXPECT_EQ(message_of<ConfigError>([] { read_nccl_config("/no/such/nccl.yaml"); }),
            "the NCCL options: cannot open /no/such/nccl.yaml: No such file or directory; "
            "give an existing file, or none");
  EXPECT_THROW(read_nccl_config("/tmp"), ConfigError) << "a folder is no file";
}

}  // namespace
}  // namespace tessera
