# The headers of our dependencies take most of the time that their users take to compile: they are read once for all of
# them. Each file still includes what it uses; `./tessera test --soak` builds without this.

# tessera_headers(target LIBRARIES … HEADERS …): from this target others take the headers, with REUSE_FROM.
function(tessera_headers target)
  cmake_parse_arguments(PARSE_ARGV 1 pch "" "" "LIBRARIES;HEADERS")
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${target}.cpp CONTENT "")
  add_library(${target} OBJECT ${PROJECT_BINARY_DIR}/${target}.cpp)
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_link_libraries(${target} PRIVATE nlohmann_json::nlohmann_json ${pch_LIBRARIES})
  tessera_own_code(${target})
  target_precompile_headers(${target} PRIVATE ${pch_HEADERS} <nlohmann/json.hpp>
    <algorithm> <filesystem> <functional> <map> <memory> <optional> <span> <sstream> <string> <vector>)
endfunction()

set(test_libraries rapidcheck GTest::gtest)
set(test_headers <gtest/gtest.h> <rapidcheck/gtest.h>)

tessera_headers(tessera_core_headers)
set_target_properties(tessera_core_headers PROPERTIES POSITION_INDEPENDENT_CODE ON)
tessera_headers(tessera_program_headers)
if(TESSERA_TESTS)
  tessera_headers(tessera_test_headers LIBRARIES ${test_libraries} HEADERS ${test_headers})
endif()
if(TESSERA_TORCH)
  tessera_headers(tessera_torch_headers LIBRARIES tessera_torch HEADERS <ATen/ATen.h>)
  set_target_properties(tessera_torch_headers PROPERTIES POSITION_INDEPENDENT_CODE ON)
  if(TESSERA_TESTS)
    tessera_headers(tessera_torch_test_headers LIBRARIES tessera_torch ${test_libraries} HEADERS <ATen/ATen.h> ${test_headers})
  endif()
endif()
