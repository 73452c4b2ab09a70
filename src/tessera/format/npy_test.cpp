#include "tessera/format/npy.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;

std::string npy(std::string_view header, size_t data_bytes, char version = 1) {
  std::string file = "\x93NUMPY";
  file += version;
  file += '\0';
  file += static_cast<char>(header.size());
  file += '\0';
  if (version > 1) file.append(2, '\0');
  file += header;
  return file.append(data_bytes, '\0');
}

NpyHeader parsed(const std::string& file) {
  return parse_npy(std::as_bytes(std::span(file)), "f.npy");
}

std::string refusal(const std::string& file) {
  return message_of<DataError>([&] { parsed(file); });
}

TEST(Npy, TheHeaderAsNumPyWritesIt) {
  const NpyHeader header =
      parsed(npy("{'descr': '<u2', 'fortran_order': False, 'shape': (5,), }     \n", 10));
  EXPECT_EQ(header, (NpyHeader{DType::kU16, {5}, 10 + 63}));
}

TEST(Npy, AllVersionsShapesAndDtypes) {
  for (const char version : {1, 2, 3}) {
    const auto header =
        parsed(npy("{\"shape\": (2, 3), 'fortran_order':False,'descr':'<f4'}", 24, version));
    EXPECT_EQ(header.shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(header.dtype, DType::kF32);
  }
  EXPECT_EQ(parsed(npy("{'descr':'<i8','fortran_order':True,'shape':()}", 8)).shape.size(), 0U);
  EXPECT_EQ(parsed(npy("{'descr':'|u1','fortran_order':False,'shape':(0,)}", 0)).shape[0], 0);
}

TEST(Npy, WhatIsNoArrayOfPlainNumbersIsRefused) {
  EXPECT_EQ(refusal("PK"), "f.npy: not a .npy file: '\\x93NUMPY' is not at offset 0");
  EXPECT_EQ(refusal(npy("{}", 0, 9)),
            "f.npy: version 9 of .npy at offset 6; supported are 1, 2 and 3");
  EXPECT_EQ(refusal(npy("{}", 0).substr(0, 11)), "f.npy: the header at offset 10 is truncated");
  EXPECT_EQ(refusal(npy("{'descr': '>u2', 'fortran_order': False, 'shape': (5,)}", 10)),
            "f.npy: the header at offset 25 does not describe an array; expected a descr of plain "
            "little-endian numbers, e.g. '<u2'");
  EXPECT_NE(
      refusal(npy("{'descr':'<u2','fortran_order':True,'shape':(2,2)}", 8)).find("ascontiguous"),
      std::string::npos);
  EXPECT_EQ(refusal(npy("{'descr':'<u2','fortran_order':False,'shape':(3,)}", 5)),
            "f.npy: 5 bytes from offset 60; U16 of shape (3) needs 6");
  EXPECT_NE(refusal(npy("{'descr':'<u2','fortran_order':False,'shape':(99999999999999999999,)}", 0))
                .find("a whole number"),
            std::string::npos);
  for (const std::string_view header :
       {"", "{", "{'descr'", "{'descr':'<u2'", "{'descr':'<u2'}", "{'x':1}", "[1]",
        "{'descr':'<u2','descr':'<u2','fortran_order':False,'shape':()}",
        "{'descr':'<u2','fortran_order':False,'shape':()} x",
        "{'descr':'<u2','fortran_order':Maybe,'shape':()}",
        "{'descr':'<u2','fortran_order':False,'shape':(-1,)}",
        "{'descr':'<u2','fortran_order':False,'shape':(1)}",
        "{'descr':'<u2','fortran_order':False,'shape':(1"}) {
    EXPECT_NE(refusal(npy(header, 2)).find("expected"), std::string::npos) << header;
  }
}

}  // namespace
}  // namespace tessera
