#pragma once

#include <string>
#include <vector>

/// The actions of `tessera checkpoint`; each takes the arguments after its name.
namespace tessera::cli {

int checkpoint_ls(const std::vector<std::string>& arguments);
int checkpoint_show(const std::vector<std::string>& arguments);
int checkpoint_verify(const std::vector<std::string>& arguments);
int checkpoint_diff(const std::vector<std::string>& arguments);
int checkpoint_reshard(const std::vector<std::string>& arguments);
int checkpoint_import(const std::vector<std::string>& arguments);

/// The checkpoints that a path stands for: itself, or all of a run directory or of its
/// "checkpoints" folder, oldest first. DataError if there are none.
std::vector<std::string> checkpoints_of(const std::string& path);

}  // namespace tessera::cli
