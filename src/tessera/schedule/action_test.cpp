#include "tessera/schedule/action.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;

TEST(Action, IsWrittenAsItIsRead) {
  for (const char* text :
       {"", "2F0", "10B3", "0I12", "7W1", "3SEND_F1", "3RECV_F1", "2SEND_B0", "2RECV_B0",
        "1UNSHARD", "4RESHARD", "3REDUCE_GRAD", "(0F3;3B1)OVERLAP_F_B", "(3B1;0F3)OVERLAP_F_B",
        "{0SEND_F3,0RECV_B0}", "{1RECV_F0,1SEND_B1}", "2147483647F2147483647"}) {
    EXPECT_EQ(to_string(parse_action(text)), text);
  }
}

// Places in which PyTorch's parser drops white space and empty parts.
TEST(Action, IsReadWithWhiteSpaceAroundItAndItsParts) {
  for (const char* text : {"(1F0; 2B1)OVERLAP_F_B", "( 1F0;2B1)OVERLAP_F_B",
                           "(1F0 ;2B1 )OVERLAP_F_B", " \t( 1F0 \n;\r\n 2B1\v)OVERLAP_F_B\f ",
                           "(1F0;;2B1)OVERLAP_F_B", "(;1F0; ;2B1;)OVERLAP_F_B",
                           "\x1c(\x1d"
                           "1F0\x1e;\x1f"
                           "2B1)OVERLAP_F_B"}) {
    EXPECT_EQ(to_string(parse_action(text)), "(1F0;2B1)OVERLAP_F_B") << text;
  }
  EXPECT_EQ(to_string(parse_action("  5F2\t\r\n")), "5F2");
  EXPECT_EQ(to_string(parse_action("007F02")), "7F2");
  EXPECT_EQ(to_string(parse_action("{ 0SEND_F3 , 0RECV_B0 }")), "{0SEND_F3,0RECV_B0}");
  EXPECT_TRUE(parse_action(" \t\r\n").is_idle());
}

TEST(Action, HasTasks) {
  const Action overlap = parse_action("(0F3;3B1)OVERLAP_F_B");
  EXPECT_TRUE(overlap.computes());
  ASSERT_EQ(overlap.tasks().size(), 2);
  EXPECT_EQ(overlap.tasks()[0], (Task{ActionType::kForward, 0, 3}));
  EXPECT_EQ(overlap.tasks()[1], (Task{ActionType::kBackward, 3, 1}));
  EXPECT_TRUE(Action().is_idle());
  EXPECT_TRUE(Action().tasks().empty());
  EXPECT_EQ(Action(), Action(Task{}));
  EXPECT_FALSE(parse_action("1UNSHARD").computes());
}

TEST(Action, RefusesTextThatIsNone) {
  for (const char* text : {"F0",
                           "1X0",
                           "-1F0",
                           "1F0abc",
                           "1FOO",
                           "1F",
                           "1UNSHARD5",
                           "()OVERLAP_F_B",
                           "(0F0)NOPE",
                           "1",
                           "F",
                           "1 F0",
                           "0f0",
                           "(0F0;1B0)",
                           "(0F0;1B0)OVERLAP_F_B2",
                           "(0F0;0B0)OVERLAP_F_B",
                           "(0F0;1F0)OVERLAP_F_B",
                           "(0F0;1I0)OVERLAP_F_B",
                           "(0F0;1B0;2F0)OVERLAP_F_B",
                           "((0F0;1B0)OVERLAP_F_B;1B0)OVERLAP_F_B",
                           "{0SEND_F0}",
                           "{0SEND_F0,1SEND_F0}",
                           "{0SEND_F0,0F0}",
                           "{0SEND_F0,0RECV_B0",
                           "2147483648F0",
                           "1F99999999999999999999",
                           "1F-1",
                           "1F+1",
                           "1SEND_F",
                           "OVERLAP_F_B",
                           "1OVERLAP_F_B",
                           "1{}",
                           "{}",
                           "(",
                           "{",
                           "(1F0;2B1) OVERLAP_F_B",
                           "(1F0 2B1)OVERLAP_F_B",
                           "(1F0,2B1)OVERLAP_F_B",
                           "(1 F0;2B1)OVERLAP_F_B",
                           "(1F0;2B 1)OVERLAP_F_B",
                           "(1F0; )OVERLAP_F_B",
                           "( ; )OVERLAP_F_B",
                           "(0F0;1B0)F",
                           "\u00a01F0",
                           "1F\u0661"}) {
    EXPECT_THROW(parse_action(text), DataError) << text;
  }
}

TEST(Action, RefusalsNameTextAndRule) {
  EXPECT_EQ(
      message_of<DataError>([] { parse_action("1SEND_G0"); }),
      "'1SEND_G0' is not an action: no type is called 'SEND_G'; did you mean 'SEND_F'? (types: F "
      "B I W SEND_F RECV_F SEND_B RECV_B UNSHARD RESHARD REDUCE_GRAD)");
  EXPECT_EQ(message_of<DataError>([] { parse_action("1F"); }),
            "'1F' is not an action: it needs a microbatch, counted from 0");
  EXPECT_EQ(
      message_of<DataError>([] { parse_action("1F0\x1b[31m"); }),
      "'1F0?[31m' is not an action: its microbatch '0?[31m' is not a whole number below 2^31");
}

TEST(Action, RefusesTasksThatCannotBe) {
  EXPECT_THROW(Action(Task{ActionType::kForward, -1, 0}), ConfigError);
  EXPECT_THROW(Action(Task{ActionType::kForward, 0, -1}), ConfigError);
  EXPECT_THROW(Action(Task{ActionType::kUnshard, 0, 0}), ConfigError);
  EXPECT_THROW(Action(Task{ActionType::kOverlap, 0, 0}), ConfigError);
  EXPECT_THROW(Action(Task{ActionType::kIdle, 0, -1}), ConfigError);
  const Task forward{ActionType::kForward, 0, 0};
  EXPECT_THROW(Action::overlap(forward, forward), ConfigError);
  EXPECT_THROW(Action::batch(forward, forward), ConfigError);
}

}  // namespace
}  // namespace tessera
