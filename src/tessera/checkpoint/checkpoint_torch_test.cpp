// Saving and loading in one process: values, dtypes and errors.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/load.h"
#include "tessera/checkpoint/save.h"
#include "tessera/comm/world.h"
#include "tessera/optim/adamw.h"
#include "tests/testkit/device.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testkit::here;
using testkit::message_of;
using testkit::TemporaryFolder;

class Checkpoints : public testing::Test {
 protected:
  const TemporaryFolder folder_;
  const std::string path_ = folder_.path("c");
  World world_ = World::connect();

  SaveReport save_here(const CheckpointEntries& entries) {
    return save(path_, entries, world_.group());
  }
  void load_here(const CheckpointEntries& entries) { load(path_, entries, world_.group()); }
};

TEST_F(Checkpoints, EveryDtypeComesBackBitForBit) {
  using enum at::ScalarType;
  for (const at::ScalarType dtype :
       {Bool, Byte, Char, Float8_e5m2, Float8_e4m3fn, Short, UInt16, Half, BFloat16, Int, UInt32,
        Float, ComplexFloat, Double, Long, UInt64}) {
    fs::remove_all(path_);
    const at::Tensor bytes = at::randint(0, dtype == Bool ? 2 : 120, {64}, Byte);
    const at::Tensor saved = bytes.view(dtype);
    save_here({{"t", saved}});
    const at::Tensor loaded = at::zeros({64}, Byte).view(dtype);
    load_here({{"t", loaded}});
    EXPECT_TRUE(loaded.view(Byte).equal(bytes)) << dtype;
  }
}

TEST_F(Checkpoints, ConvertsDtypesAndKeepsScalarsEmptyAndStridedTensors) {
  const at::Tensor matrix = at::randn({4, 3}, here());
  save_here({{"m", matrix},
             {"turned", matrix.t()},
             {"s", at::full({}, 2.5, here())},
             {"e", at::empty({0, 3})}});
  const at::Tensor half = at::zeros({4, 3}, here(at::kBFloat16));
  const at::Tensor turned = at::zeros({4, 3}, here()).t();
  const at::Tensor scalar = at::zeros({}, here(at::kDouble));
  load_here({{"m", half}, {"turned", turned}, {"s", scalar}, {"e", at::empty({0, 3})}});
  EXPECT_TRUE(half.equal(matrix.to(at::kBFloat16)));
  EXPECT_TRUE(turned.equal(matrix.t()));
  EXPECT_EQ(scalar.item<double>(), 2.5);
}

TEST_F(Checkpoints, WhatDoesNotFitIsNamed) {
  save_here({{"weight", at::zeros({2, 3})}});
  EXPECT_EQ(message_of<DataError>([&] { load_here({{"weight", at::zeros({3, 2})}}); }),
            concat("'weight' has shape [2, 3] in ", path_,
                   ", but [3, 2] is needed; is it a checkpoint of another model?"));
  EXPECT_NE(message_of<DataError>([&] {
              load_here({{"wieght", at::zeros({2, 3})}});
            }).find("did you mean 'weight'?"),
            std::string::npos);
  EXPECT_EQ(message_of<DataError>([&] { save_here({{"weight", at::zeros({2})}}); }),
            concat("cannot save ", path_, ": ", path_,
                   " exists already; choose another folder, or remove it"));
}

TEST_F(Checkpoints, AnAsynchronousSaveHasTheValuesOfItsBeginning) {
  CheckpointSaver saver(world_.group());
  const at::Tensor tensor = at::ones({1000, 1000}, here());
  const at::Tensor columns = at::ones({1000, 1000}, here()).narrow(1, 10, 500);
  saver.begin({.path = path_, .step = 3, .state = {{"a", "b"}}},
              {{"t", tensor}, {"columns", columns}});
  tensor.zero_();
  columns.zero_();
  EXPECT_TRUE(saver.in_flight());
  EXPECT_THROW(saver.begin({.path = path_}, {}), StateError);
  const auto report = saver.finish();
  ASSERT_TRUE(report && report->succeeded());
  EXPECT_EQ(report->bytes, 6'000'000);
  EXPECT_LE(report->stall_s, report->seconds);
  EXPECT_EQ(saver.finish(), std::nullopt);
  load_here({{"t", tensor}, {"columns", columns}});
  EXPECT_TRUE(tensor.equal(at::ones_like(tensor)));
  EXPECT_TRUE(columns.equal(at::ones_like(columns)));
  EXPECT_EQ(Checkpoint(path_).index().state.at("a"), "b");
}

TEST_F(Checkpoints, AFailedSaveIsReportedAndLeavesNothing) {
  CheckpointSaver saver(world_.group());
  const std::string file = folder_.file("file", "");
  saver.begin({.path = file + "/c"}, {{"t", at::ones({2})}});
  const auto report = saver.finish();
  ASSERT_TRUE(report);
  EXPECT_NE(report->error.find("cannot create " + file), std::string::npos) << report->error;
}

// A wider parameter takes the master copy, and a missing master copy is the parameter.
TEST_F(Checkpoints, MasterCopiesFollowTheDtype) {
  const auto parameter = [](at::ScalarType dtype) {
    return Parameters{{"w", at::zeros({3}, here(dtype)).requires_grad_()}};
  };
  const Parameters saved = parameter(at::kBFloat16);
  AdamW optimizer(saved);
  saved[0].tensor.mutable_grad() = at::full({3}, 1, here(at::kBFloat16));
  optimizer.step(1.0 / 3);
  CheckpointEntries entries = entries_of(saved);
  for (const CheckpointEntry& entry : entries_of(optimizer, saved)) entries.push_back(entry);
  save_here(entries);
  const Checkpoint checkpoint(path_);
  const Parameters wide = parameter(at::kFloat);
  load_parameters(checkpoint, wide);
  EXPECT_TRUE(wide[0].tensor.equal(optimizer.state()[3].tensor));
  AdamW of_wide(wide);
  load_optimizer(checkpoint, of_wide, wide);
  EXPECT_TRUE(of_wide.state()[1].tensor.equal(optimizer.state()[1].tensor));
  fs::remove_all(path_);
  entries = entries_of(wide);
  for (const CheckpointEntry& entry : entries_of(of_wide, wide)) entries.push_back(entry);
  save_here(entries);
  const Parameters narrow = parameter(at::kHalf);
  load_parameters(Checkpoint(path_), narrow);
  AdamW of_narrow(narrow);
  load_optimizer(Checkpoint(path_), of_narrow, narrow);
  EXPECT_TRUE(of_narrow.state()[3].tensor.equal(wide[0].tensor)) << "not rounded to float16";
}

}  // namespace
}  // namespace tessera
