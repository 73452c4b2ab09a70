#pragma once

#include <gtest/gtest.h>

#include <string>

namespace tessera::testkit {

/// The message of the exception that `body` throws; the test fails if it throws none.
template <class Exception, class Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const Exception& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace tessera::testkit
