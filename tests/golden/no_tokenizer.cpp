#include "tests/golden/golden.h"

namespace tessera::golden {

Table tokenizer_table() {
  const auto cases = [](const Json& file) {
    std::vector<Case> list;
    for (const char* const part : {"cases", "decode"}) {
      for (const Json& test_case : value_or(file, part, Json::array())) {
        list.push_back({part, test_case});
      }
    }
    return list;
  };
  return {"tokenizer", {{"cases", nullptr}, {"decode", nullptr}}, cases};
}

}  // namespace tessera::golden
