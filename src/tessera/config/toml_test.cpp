#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/config/layers.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;

TrainConfig config_of(const std::string& toml) {
  return resolve({.file = parse_config_toml(toml, "run.toml")});
}

std::string refusal(const std::string& toml) {
  return message_of<ConfigError>([&] { config_of(toml); });
}

TEST(ConfigToml, ReadsEveryType) {
  const TrainConfig config = config_of(R"(
[model]
preset = "llama3-8b"
rms_norm_eps = 1
[data]
paths = ["a", "b"]
weights = [1, 2.5]
shuffle = false
batch = 16
[optim]
lr = 3e-4
)");
  EXPECT_EQ(config.model.shape.hidden_size, 4096);
  EXPECT_EQ(config.model.shape.rms_norm_eps, 1);
  EXPECT_EQ(config.data.paths, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(config.data.weights, (std::vector<double>{1, 2.5}));
  EXPECT_FALSE(config.data.shuffle);
  EXPECT_EQ(config.data.batch, 16);
  EXPECT_EQ(config.optim.lr, 3e-4);
  EXPECT_EQ(config_of("data.paths = 'a'").data.paths, (std::vector<std::string>{"a"}));
}

TEST(ConfigToml, UnknownNamesAreErrorsWithTheLine) {
  const std::string key = refusal("[optim]\nlr = 1\nwarmpu = 3\n");
  EXPECT_TRUE(
      key.starts_with("run.toml, line 3: key 'warmpu' of section optim is unknown; known "
                      "are kind, lr, schedule, "))
      << key;
  EXPECT_TRUE(key.ends_with("; did you mean 'warmup'?")) << key;
  EXPECT_EQ(refusal("\n[optima]\n"),
            "run.toml, line 2: section 'optima' is unknown; known are model, data, optim, train, "
            "run, parallel; did you mean 'optim'?");
}

TEST(ConfigToml, WrongValuesAreErrorsWithTheLine) {
  EXPECT_EQ(refusal("[optim]\nlr = \"high\"\n"),
            "run.toml, line 2: optim.lr is of type string; it must be a number from 0");
  EXPECT_EQ(
      refusal("[data]\nbatch = 1.5\n"),
      "run.toml, line 2: data.batch is of type floating-point; it must be a whole number from "
      "1 to 2,147,483,648");
  EXPECT_EQ(refusal("[data]\nweights = [1, 'a']\n"),
            "run.toml, line 2: data.weights is of type array; it must be a list of numbers");
  EXPECT_EQ(
      refusal("[data]\n\nbatch = 0\n"),
      "run.toml, line 3: data.batch is '0'; it must be a whole number from 1 to 2,147,483,648");
  EXPECT_EQ(refusal("[optim]\nkind = 'adam'\n"),
            "run.toml, line 2: optim.kind is 'adam'; choose adamw or sgd; did you mean 'adamw'?");
  EXPECT_EQ(refusal("[optim]\neps = nan\n"),
            "run.toml, line 2: optim.eps is 'nan'; it must be a number from 0");
  EXPECT_EQ(refusal("optim = 3\n"),
            "run.toml, line 1: 'optim' is a section; write [optim] and its keys below");
}

TEST(ConfigToml, BrokenFiles) {
  EXPECT_EQ(refusal("[optim]\nlr = \n").substr(0, 30), "run.toml, line 2: broken TOML:");
  EXPECT_EQ(refusal("[optim]\nlr = 1\n[optim]\n").substr(0, 30), "run.toml, line 3: broken TOML:");
  EXPECT_EQ(refusal("[^]").substr(0, 30), "run.toml, line 1: broken TOML:");
  EXPECT_EQ(refusal("[[[a]]]").substr(0, 30), "run.toml, line 1: broken TOML:");
  EXPECT_THROW(read_config_file("/nowhere/run.toml"), DataError);
  const testkit::TemporaryFolder folder;
  EXPECT_THROW(read_config_file(folder.path()), DataError);
  EXPECT_EQ(read_config_file(folder.file("a.toml", "[train]\nsteps = 3")).size(), 1U);
}

TEST(ConfigToml, AnyLettersInQuotesAndComments) {
  const auto dir_of = [](const std::string& text) {
    return config_of("[run]  # \u00e9\ndir = " + text).run.dir;
  };
  EXPECT_EQ(dir_of("'\u00e9~\\'"), "\u00e9~\\");
  EXPECT_EQ(dir_of("\"~7E ~\\u00e9\""), "~7E ~\u00e9");
  EXPECT_EQ(dir_of("'''\n\u65e5\n'''"), "\u65e5\n");
  EXPECT_EQ(refusal("[train]\n\u00e9 = 1").substr(0, 30), "run.toml, line 2: broken TOML:");
  EXPECT_EQ(refusal("[train]\nsteps = 4['\u00e9'").substr(0, 30), "run.toml, line 2: broken TOML:");
  EXPECT_TRUE(refusal("[train]\n'\u00e9' = 1").starts_with("run.toml, line 2: key '\u00e9' of"));
  EXPECT_EQ(config_of("\xEF\xBB\xBF[train]\nsteps = 3").train.steps, 3);
}

TEST(ConfigToml, WhatIsPrintedIsReadAsTheSame) {
  for (const char* const text : {"", "[model]\npath = 'a \"b\" \\c'\n[data]\npaths = ['\u00e9,x']",
                                 "[optim]\nschedule = 'wsd'\nlr = 1e-300\n[train]\nsteps = 7"}) {
    const TrainConfig config = config_of(text);
    EXPECT_EQ(config_of(to_toml(config)), config) << to_toml(config);
  }
}

TEST(ConfigToml, PrintedKeysSayWhatTheyAreFor) {
  const std::string text = to_toml(config_of(""));
  EXPECT_NE(text.find("\n[optim]\nkind = \"adamw\"  # the optimizer\n"), std::string::npos) << text;
  for (const ConfigField& field : config_fields()) {
    EXPECT_FALSE(field.help.empty()) << field.name();
    EXPECT_EQ(field.help.find('\n'), std::string::npos) << field.name();
  }
}

// Any value of the field's type that its limits allow.
ConfigValue any_value(const ConfigField& field) {
  const auto number = [&] {
    const double value = *rc::gen::inRange(0, 1'000'000) / 1e6 * *rc::gen::element(1.0, 1e-9, 1e3);
    return std::clamp(value, field.least, field.most);
  };
  const auto text = [&]() -> std::string {
    if (field.choices != nullptr) return *rc::gen::elementOf(field.choices());
    return *rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127));
  };
  struct Make {
    decltype(number) make_number;
    decltype(text) make_text;
    ConfigValue operator()(bool*) const { return *rc::gen::arbitrary<bool>(); }
    ConfigValue operator()(int64_t*) const { return *rc::gen::inRange<int64_t>(1, 9); }
    ConfigValue operator()(double*) const { return make_number(); }
    ConfigValue operator()(std::string*) const { return make_text(); }
    ConfigValue operator()(std::vector<std::string>*) const {
      return std::vector<std::string>{make_text(), "b"};
    }
    ConfigValue operator()(std::vector<double>*) const {
      return std::vector<double>{make_number(), 1};
    }
  };
  TrainConfig any;
  return std::visit(Make{number, text}, field.target(any));
}

// Values that contradict each other are refused; all others survive the way through a file.
RC_GTEST_PROP(ConfigProperty, AnyConfigSurvivesBeingPrinted, ()) {
  ConfigLayers layers;
  for (const ConfigField& field : config_fields()) {
    if (*rc::gen::inRange(0, 24) == 23) layers.file.push_back({&field, any_value(field), "random"});
  }
  try {
    const TrainConfig config = resolve(layers);
    RC_ASSERT(config_of(to_toml(config)) == config);
  } catch (const ConfigError& error) {
    RC_ASSERT(std::string(error.what()).find("run.toml") == std::string::npos);
  }
}

}  // namespace
}  // namespace tessera
