# A room is one static library tessera::<name>. It links only the rooms it names, so a wrong edge does not link.
#
#   tessera_room(topology HEADERS layout.h … SOURCES layout.cpp … TESTS layout_test.cpp … ROOMS base LIBRARIES … [TORCH])
#
# TORCH: it needs LibTorch, and belongs to tessera::tessera instead of tessera::core.
function(tessera_room name)
  cmake_parse_arguments(PARSE_ARGV 1 room "TORCH" "" "HEADERS;SOURCES;TESTS;ROOMS;LIBRARIES;PUBLIC_LIBRARIES")
  set(target tessera_${name})
  add_library(${target} STATIC ${room_SOURCES})
  add_library(tessera::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON
                                             VERIFY_INTERFACE_HEADER_SETS ON)
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/src FILES ${room_HEADERS})
  list(TRANSFORM room_ROOMS PREPEND tessera_)
  target_link_libraries(${target} PUBLIC ${room_ROOMS} ${room_PUBLIC_LIBRARIES} PRIVATE ${room_LIBRARIES})
  target_compile_features(${target} PUBLIC cxx_std_20)
  tessera_own_code(${target})
  if(room_TORCH)
    target_link_libraries(${target} PUBLIC tessera_torch)
    install(TARGETS ${target} EXPORT tessera-torch FILE_SET HEADERS)
  else()
    install(TARGETS ${target} EXPORT tessera FILE_SET HEADERS)
  endif()
  if(TESSERA_TESTS AND room_TESTS)
    tessera_gtest(${name}_test LABEL unit SOURCES ${room_TESTS} LIBRARIES ${target} ${room_LIBRARIES})
  endif()
endfunction()

# A GoogleTest program whose every TEST is a ctest of the given label.
function(tessera_gtest target)
  cmake_parse_arguments(PARSE_ARGV 1 test "" "LABEL" "SOURCES;LIBRARIES")
  include(GoogleTest)
  add_executable(${target} ${test_SOURCES})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE ${test_LIBRARIES} rapidcheck GTest::gtest GTest::gtest_main)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  tessera_own_code(${target})
  gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST PROPERTIES LABELS ${test_LABEL} TIMEOUT 300)
endfunction()
