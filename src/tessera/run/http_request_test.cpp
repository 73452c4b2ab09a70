#include "tessera/run/http_request.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(HttpRequest, IsRead) {
  const auto request = parse_http_request(
      "GET /data HTTP/1.1\r\nhOST:  127.0.0.1:8600 \r\nIf-None-Match: \"3\"\r\nX: y: z\r\n\r\n");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->method, "GET");
  EXPECT_EQ(request->path, "/data");
  EXPECT_EQ(request->host, "127.0.0.1:8600");
  EXPECT_EQ(request->if_none_match, "\"3\"");
}

TEST(HttpRequest, MalformedOnesAreRefused) {
  for (const char* head :
       {"\r\n", "GET / HTTP/1.1", "GET /\r\n\r\n", "GET / HTTP/2\r\n\r\n",
        "GET  / HTTP/1.1\r\n\r\n", "GET x HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost:\r\nHost: b\r\n\r\n", "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET / HTTP/1.1\r\n: a\r\n\r\n", "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "GET /\x01 HTTP/1.1\r\n\r\n", "GET /\xc3\xa4 HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\na: b\n c\r\n\r\n"}) {
    EXPECT_FALSE(parse_http_request(head)) << head;
  }
}

}  // namespace
}  // namespace tessera
