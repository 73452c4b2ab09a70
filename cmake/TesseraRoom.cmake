# A room is one library tessera::<name>. It links only the rooms it names, so a wrong edge does not link.
#
#   tessera_room(topology HEADERS layout.h … SOURCES layout.cpp … TESTS layout_test.cpp … ROOMS base LIBRARIES … [TORCH])
#
# TORCH: it needs LibTorch, and belongs to tessera::tessera instead of tessera::core.
# APART: sources that are compiled by themselves even with TESSERA_UNITY, since they use local names that others of the room use, too.
function(tessera_room name)
  cmake_parse_arguments(PARSE_ARGV 1 room "TORCH" "" "HEADERS;SOURCES;TESTS;APART;ROOMS;LIBRARIES;PUBLIC_LIBRARIES")
  set(target tessera_${name})
  add_library(${target} ${room_SOURCES})
  add_library(tessera::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON
                                             VERIFY_INTERFACE_HEADER_SETS ON)
  # As shared libraries, rooms find each other in their own folder, and LibTorch where the build did. Until version 1 each minor
  # version has an interface of its own.
  set_target_properties(${target} PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    INSTALL_RPATH $ORIGIN INSTALL_RPATH_USE_LINK_PATH ON)
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/src FILES ${room_HEADERS})
  list(TRANSFORM room_ROOMS PREPEND tessera_)
  target_link_libraries(${target} PUBLIC ${room_ROOMS} ${room_PUBLIC_LIBRARIES} PRIVATE ${room_LIBRARIES})
  target_compile_features(${target} PUBLIC cxx_std_20)
  tessera_own_code(${target})
  tessera_compile_alone(${room_APART})
  set_property(GLOBAL APPEND PROPERTY tessera_libraries ${target})
  if(room_TORCH)
    target_link_libraries(${target} PUBLIC tessera_torch)
    tessera_torch_code(${target})
    target_precompile_headers(${target} REUSE_FROM tessera_torch_headers)
    set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME torch)
    install(TARGETS ${target} EXPORT tessera-torch FILE_SET HEADERS)
  else()
    target_precompile_headers(${target} REUSE_FROM tessera_core_headers)
    install(TARGETS ${target} EXPORT tessera FILE_SET HEADERS)
    set_property(GLOBAL APPEND PROPERTY tessera_core_libraries ${target})
  endif()
  if(TESSERA_TESTS AND room_TESTS)
    if(room_TORCH)
      set(torch TORCH)
    endif()
    tessera_gtest(${name}_test ${torch} LABEL unit SOURCES ${room_TESTS} LIBRARIES ${target} ${room_LIBRARIES})
  endif()
endfunction()

# A GoogleTest program. It is one ctest of the given label, since each start of a program with LibTorch takes a quarter of a second.
# With EACH every TEST of it is a ctest of its own: for a program whose tests take long, so that ctest can run them side by side.
# The TESTs that ALONE matches run in a ctest that has the machine to itself.
function(tessera_gtest target)
  cmake_parse_arguments(PARSE_ARGV 1 test "TORCH;EACH" "LABEL;ALONE" "SOURCES;LIBRARIES")
  add_executable(${target} ${test_SOURCES})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE ${test_LIBRARIES} rapidcheck GTest::gtest GTest::gtest_main)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  tessera_test_code(${target})
  if(test_TORCH)
    tessera_torch_code(${target})
    target_precompile_headers(${target} REUSE_FROM tessera_torch_test_headers)
  else()
    target_precompile_headers(${target} REUSE_FROM tessera_test_headers)
  endif()
  if(test_EACH)
    include(GoogleTest)
    gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST PROPERTIES LABELS ${test_LABEL} TIMEOUT 300)
    return()
  endif()
  if(test_ALONE)
    tessera_gtest_run(${target}.alone ${target} ${test_LABEL} "${test_ALONE}")
    set_tests_properties(${target}.alone PROPERTIES RUN_SERIAL TRUE COST 300)  # First, so that no core waits for it later.
    set(others "-${test_ALONE}")
  endif()
  tessera_gtest_run(${target} ${target} ${test_LABEL} "${others}")
endfunction()

# The tests of the program that the filter matches, or all, as one ctest. It fails if there are none.
function(tessera_gtest_run name target label filter)
  if(filter)
    set(flag --gtest_filter=${filter})
  endif()
  add_test(NAME ${name} COMMAND ${target} ${flag})
  set_tests_properties(${name} PROPERTIES LABELS ${label} FAIL_REGULAR_EXPRESSION "${tessera_no_tests}")
endfunction()

# What GoogleTest says, with exit code 0, if it has run no test.
set(tessera_no_tests "\\] 0 tests from 0 test suites ran")
