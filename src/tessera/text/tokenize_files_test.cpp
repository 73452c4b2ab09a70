#include "tessera/text/tokenize_files.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/format/token_file.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/throws.h"
#include "tests/testkit/tokenizers.h"

namespace tessera {
namespace {

using testkit::message_of;
using testkit::TemporaryFolder;

constexpr int64_t kEnd = 659;

// More than a few chunks, with lines and spaces.
std::string long_text(size_t bytes) {
  std::string text;
  for (int64_t i = 0; text.size() < bytes; ++i) {
    text +=
        "The rank reads the checkpoint number " + std::to_string(i) + (i % 7 == 0 ? ".\n" : ", ");
  }
  return text;
}

class TokenizeFiles : public testing::Test {
 protected:
  const Tokenizer tokenizer_ = testkit::parse_tokenizer(testkit::tokenizer_document("llama3"));
  const TemporaryFolder folder_;
  const std::string output_ = folder_.path("tokens.bin");

  TokenizeJob job(std::vector<std::string> inputs) const {
    return {
        .inputs = std::move(inputs), .output = output_, .end = kEnd, .threads = 3, .save_ms = 0};
  }
  std::vector<int64_t> written(DType dtype = DType::kU16) const {
    const TokenFile file(output_, dtype);
    std::vector<int64_t> ids(static_cast<size_t>(file.size()));
    file.read(0, ids);
    return ids;
  }
  std::vector<int64_t> expected(const std::vector<std::string>& texts) const {
    std::vector<int64_t> all;
    for (const std::string& text : texts) {
      const std::vector<int64_t> ids = tokenizer_.encode(text);
      all.insert(all.end(), ids.begin(), ids.end());
      all.push_back(kEnd);
    }
    return all;
  }
};

TEST_F(TokenizeFiles, WritesEachDocumentWithItsEnd) {
  const std::string text = long_text(3'000'000);
  const TokenizeProgress done = tokenize_files(
      tokenizer_,
      job({folder_.file("a.txt", text), folder_.file("b.txt", "x"), folder_.file("c.txt", "")}));
  EXPECT_EQ(written(), expected({text, "x", ""}));
  EXPECT_EQ(done.tokens, std::ssize(written()));
  EXPECT_EQ(done.documents, 3);
  EXPECT_EQ(done.bytes, done.total_bytes);
  EXPECT_FALSE(std::filesystem::exists(output_ + ".part"));
  EXPECT_FALSE(std::filesystem::exists(output_ + ".state.json"));
}

TEST_F(TokenizeFiles, ReadsFoldersWithoutWhatIsNoText) {
  std::filesystem::create_directory(folder_.path("in"));
  folder_.file("in/b.txt", "b");
  folder_.file("in/a.txt", "a");
  folder_.file("in/c.bin", std::string_view("c\0c", 3));
  TokenizeJob wide = job({folder_.path("in")});
  wide.dtype = DType::kU32;
  wide.add_special = false;
  const TokenizeProgress done = tokenize_files(tokenizer_, wide);
  EXPECT_EQ(done.skipped, 1);
  EXPECT_EQ(written(DType::kU32), (std::vector<int64_t>{64, kEnd, 65, kEnd}));
}

struct Interrupted {};

TEST_F(TokenizeFiles, GoesOnAfterAnInterruption) {
  const std::string text = long_text(5'000'000);
  const TokenizeJob same = job({folder_.file("a.txt", "a"), folder_.file("b.txt", text)});
  const auto stop = [](const TokenizeProgress& progress) {
    if (progress.bytes > 2'000'000) throw Interrupted();
  };
  EXPECT_THROW(tokenize_files(tokenizer_, same, stop), Interrupted);
  EXPECT_FALSE(std::filesystem::exists(output_));
  int64_t first = -1;
  const TokenizeProgress done =
      tokenize_files(tokenizer_, same, [&](const TokenizeProgress& progress) {
        if (first < 0) first = progress.resumed_bytes;
      });
  EXPECT_GT(first, 1'000'000);
  EXPECT_EQ(done.documents, 2);
  EXPECT_EQ(written(), expected({"a", text}));
}

// What was encoded before stays of use.
TEST_F(TokenizeFiles, GoesOnWhenALaterFileWasMended) {
  const std::string text = long_text(3'000'000);
  const std::string first = folder_.file("a.txt", text);
  const TokenizeJob both = job({first, folder_.file("b.txt", "b\xff")});
  EXPECT_THROW(tokenize_files(tokenizer_, both), DataError);
  folder_.file("b.txt", "mended");
  int64_t resumed = -1;
  tokenize_files(tokenizer_, both, [&](const TokenizeProgress& progress) {
    if (resumed < 0) resumed = progress.resumed_bytes;
  });
  EXPECT_GT(resumed, 1'000'000);
  EXPECT_EQ(written(), expected({text, "mended"}));
}

TEST_F(TokenizeFiles, DoesNotGoOnWithAnotherJob) {
  const std::string input = folder_.file("a.txt", long_text(3'000'000));
  TokenizeJob one = job({input});
  const auto stop = [](const TokenizeProgress&) { throw Interrupted(); };
  EXPECT_THROW(tokenize_files(tokenizer_, one, stop), Interrupted);
  one.add_special = false;
  EXPECT_EQ(message_of<ConfigError>([&] { tokenize_files(tokenizer_, one); }),
            output_ +
                ".part is the unfinished output of a job with other inputs, flags or tokenizer; "
                "finish that one, or start over with --restart");
  one.restart = true;
  EXPECT_GT(tokenize_files(tokenizer_, one).tokens, 0);
  one.restart = false;
  EXPECT_EQ(message_of<ConfigError>([&] { tokenize_files(tokenizer_, one); }),
            output_ + " exists already; choose another output, or --restart to replace it");
}

TEST_F(TokenizeFiles, NamesFileAndByteOfWhatIsNotUtf8) {
  const std::string text = long_text(2'500'000);
  const std::string input = folder_.file("a.txt", text + "\xff" + text);
  EXPECT_EQ(message_of<DataError>([&] { tokenize_files(tokenizer_, job({input})); }),
            input + ": byte " + std::to_string(text.size()) +
                " is not UTF-8; convert the file, e.g. by iconv");
  EXPECT_THROW(tokenize_files(tokenizer_, job({folder_.path("none")})), DataError);
}

// No place of such a text can be divided: what was begun in parts is joined again.
TEST_F(TokenizeFiles, TakesExpressionsThatReachAcrossEveryDivision) {
  const nlohmann::json lines = testkit::tokenizer_with(
      "llama3",
      {{"pre_tokenizer",
        {{"type", "Sequence"},
         {"pretokenizers",
          {{{"type", "Split"},
            {"pattern", {{"Regex", "[^\\n]+\\n?"}}},
            {"behavior", "Isolated"},
            {"invert", false}},
           {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}}}});
  const Tokenizer tokenizer = testkit::parse_tokenizer(lines);
  std::string text = long_text(2'600'000);
  std::erase(text, '\n');
  tokenize_files(tokenizer, job({folder_.file("a.txt", text)}));
  std::vector<int64_t> whole = tokenizer.encode(text);
  whole.push_back(kEnd);
  EXPECT_EQ(written(), whole);
}

TEST_F(TokenizeFiles, ChecksTheJob) {
  const std::string input = folder_.file("a.txt", "a");
  TokenizeJob bad = job({input});
  bad.output = folder_.path("tokens.npy");
  EXPECT_THROW(tokenize_files(tokenizer_, bad), ConfigError);
  bad = job({input});
  bad.end = 661;
  EXPECT_THROW(tokenize_files(tokenizer_, bad), ConfigError);
  bad = job({});
  EXPECT_THROW(tokenize_files(tokenizer_, bad), ConfigError);
  bad = job({input});
  bad.threads = 0;
  EXPECT_THROW(tokenize_files(tokenizer_, bad), ConfigError);
}

}  // namespace
}  // namespace tessera
