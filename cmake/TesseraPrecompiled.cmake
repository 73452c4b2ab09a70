# The headers of our dependencies take most of the time that their users take to compile: they are read once for all of
# them. Each file still includes what it uses; `./tessera test --soak` builds without this.

# tessera_headers(target LIBRARIES … HEADERS … [TESTS]): from this target others take the headers, with REUSE_FROM; with TESTS,
# those of tests, which are compiled in their way.
function(tessera_headers target)
  cmake_parse_arguments(PARSE_ARGV 1 pch "TESTS" "" "LIBRARIES;HEADERS")
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${target}.cpp CONTENT "")
  add_library(${target} OBJECT ${PROJECT_BINARY_DIR}/${target}.cpp)
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_link_libraries(${target} PRIVATE nlohmann_json::nlohmann_json ${pch_LIBRARIES})
  if(pch_TESTS)
    target_link_libraries(${target} PRIVATE rapidcheck GTest::gtest)
    list(APPEND pch_HEADERS <gtest/gtest.h> <rapidcheck/gtest.h>)
    tessera_test_code(${target})
  else()
    tessera_own_code(${target})
  endif()
  if("tessera_torch" IN_LIST pch_LIBRARIES)
    tessera_torch_code(${target})
  endif()
  target_precompile_headers(${target} PRIVATE ${pch_HEADERS} <nlohmann/json.hpp>
    <algorithm> <filesystem> <functional> <map> <memory> <optional> <span> <sstream> <string> <vector>)
endfunction()

# A test's helper or an example: a program or library that is no GoogleTest program itself, with the same headers.
function(tessera_test_helper target)
  tessera_test_code(${target})
  target_link_libraries(${target} PRIVATE GTest::gtest nlohmann_json::nlohmann_json)  # Whose headers are among the precompiled ones.
  if(ARGV1 STREQUAL TORCH)
    tessera_torch_code(${target})
    target_precompile_headers(${target} REUSE_FROM tessera_torch_test_headers)
  else()
    target_precompile_headers(${target} REUSE_FROM tessera_test_headers)
  endif()
endfunction()

tessera_headers(tessera_core_headers)
set_target_properties(tessera_core_headers PROPERTIES POSITION_INDEPENDENT_CODE ON)
tessera_headers(tessera_program_headers)
if(TESSERA_TESTS)
  tessera_headers(tessera_test_headers TESTS)
endif()
if(TESSERA_TORCH)
  tessera_headers(tessera_torch_headers LIBRARIES tessera_torch HEADERS <ATen/ATen.h>)
  set_target_properties(tessera_torch_headers PROPERTIES POSITION_INDEPENDENT_CODE ON)
  if(TESSERA_TESTS)
    tessera_headers(tessera_torch_test_headers TESTS LIBRARIES tessera_torch HEADERS <ATen/ATen.h>)
  endif()
endif()
