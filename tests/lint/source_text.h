#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <string>

namespace tessera::lint {

/// A file of the project.
inline std::string text_of(const std::string& file) {
  std::ifstream stream(std::string(TESSERA_SOURCE_DIR "/") + file);
  EXPECT_TRUE(stream) << file;
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Comments do not declare anything.
inline std::string without_comments(const std::string& code) {
  return std::regex_replace(code, std::regex("//[^\n]*"), "");
}

}  // namespace tessera::lint
