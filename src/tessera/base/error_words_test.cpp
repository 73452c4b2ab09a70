#include "tessera/base/error_words.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <stdexcept>
#include <system_error>

namespace tessera {
namespace {

constexpr const char* kFrames =
    "\nframe #0: c10::alloc_cpu(unsigned long) + 0x3a4 (0x7f3b in libc10.so)\nframe #1: main\n";

std::string words_of(const std::string& text) {
  return error_words(std::runtime_error(text));
}

TEST(ErrorWords, LeaveOwnWordsAsTheyAre) {
  EXPECT_EQ(words_of("hidden_size 7 is odd\nchoose 8"), "hidden_size 7 is odd\nchoose 8");
}

TEST(ErrorWords, HaveNoStack) {
  EXPECT_EQ(words_of(std::string("boom\nException raised from f at a.cpp:1:") + kFrames), "boom");
  EXPECT_EQ(words_of(std::string("boom") + kFrames), "boom");
}

TEST(ErrorWords, HaveTheStackWhereItIsWanted) {
  const std::string text = std::string("boom") + kFrames;
  setenv("TESSERA_BACKTRACE", "1", 1);
  const std::string words = words_of(text);
  unsetenv("TESSERA_BACKTRACE");
  EXPECT_EQ(words, text);
}

TEST(ErrorWords, SayWhatMemoryWasWanted) {
  const std::string advice = "; choose smaller sizes, e.g. a smaller batch, or provide more memory";
  EXPECT_EQ(error_words(std::bad_alloc()), "out of memory" + advice);
  EXPECT_EQ(words_of(std::string("[enforce fail at alloc_cpu.cpp:127] err == 0. "
                                 "DefaultCPUAllocator: can't allocate memory: you tried to "
                                 "allocate 536870912 bytes. Error code 12 (Cannot allocate "
                                 "memory)") +
                     kFrames),
            "out of memory: 536,870,912 bytes could not be allocated" + advice);
  EXPECT_EQ(words_of("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity "
                     "of 139.72 GiB of which 1.20 GiB is free. Process 7 has 138.51 GiB memory in "
                     "use. Of the allocated memory …"),
            "out of GPU memory: 2.00 GiB could not be allocated (GPU 1 has a total capacity of "
            "139.72 GiB of which 1.20 GiB is free)" +
                advice);
}

TEST(ErrorWords, SayThatNoThreadStarts) {
  const std::system_error error(std::make_error_code(std::errc::resource_unavailable_try_again));
  EXPECT_NE(error_words(error).find("cannot start another thread"), std::string::npos);
}

}  // namespace
}  // namespace tessera
