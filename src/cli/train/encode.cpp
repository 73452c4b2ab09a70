#include "cli/train/encode.h"

#include <filesystem>
#include <iostream>
#include <optional>

#include "cli/files.h"
#include "cli/tokenize/screen.h"
#include "tessera/base/check.h"
#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"
#include "tessera/train/texts.h"

namespace tessera::cli {
namespace {

// Files that the run writes would be texts to encode, and those would have changed.
void check_apart(const std::string& texts, const std::string& written) {
  TSR_CHECK(written.empty() || !lies_in(written, texts), "the folder of texts ", texts,
            " contains ", written,
            ", which is written to; choose --run-dir and --data.cache outside it");
}

}  // namespace

void encode_texts_of(const TrainConfig& config) {
  for (const std::string& texts : texts_to_encode(config)) {
    if (!std::filesystem::is_directory(texts)) continue;
    check_apart(texts, config.run.dir);
    check_apart(texts, token_cache(config));
  }
  std::optional<TokenizeScreen> screen;
  encode_texts(config, {.begin =
                            [&](const std::string& text, const std::string& tokens) {
                              std::cerr << concat("encoding ", visible(text), " by ",
                                                  visible(config.data.tokenizer),
                                                  "/tokenizer.json into ", visible(tokens), "\n");
                              screen.emplace();
                            },
                        .wait =
                            [&] {
                              std::cerr << concat(
                                  "waiting for another run, which is encoding texts into ",
                                  visible(token_cache(config)), "\n");
                            },
                        .show = [&](const TokenizeProgress& progress) { screen->show(progress); },
                        .end =
                            [&](const TokenizeProgress& done) {
                              screen.reset();
                              const int64_t documents = done.documents - done.skipped;
                              std::cerr << concat("encoded ", with_thousands(done.tokens),
                                                  " tokens of ", with_thousands(documents),
                                                  documents == 1 ? " document\n" : " documents\n");
                            }});
}

}  // namespace tessera::cli
