# Warnings, sanitizers and ccache, for our own code alone: dependencies are included as system headers.

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "g++ ${CMAKE_CXX_COMPILER_VERSION} is too old: Tessera needs g++ 12 or newer, or clang 15 or newer")
elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 15)
  message(FATAL_ERROR "clang ${CMAKE_CXX_COMPILER_VERSION} is too old: Tessera needs clang 15 or newer, or g++ 12 or newer")
endif()

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(TESSERA_CCACHE ccache)
if(TESSERA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without the sloppiness ccache would not look at files that use precompiled headers. It asks the compiler which headers a file has
  # read, instead of preprocessing the file itself, and reads the precompiled headers, hundreds of megabytes, once.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1 CCACHE_INODECACHE=1
                                  ${TESSERA_CCACHE})
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endif()

function(tessera_own_code target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${TESSERA_UNITY} UNITY_BUILD_BATCH_SIZE 8)
  target_compile_options(${target} PRIVATE -Wall -Wextra $<$<BOOL:${TESSERA_WERROR}>:-Werror>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # It takes the insides of std::string, std::vector, std::optional and std::regex for errors where it inlines much
    # (GCC bugs 105651, 105329).
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow
                                             -Wno-stringop-overread)
    if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
      # It takes a reference that a function returns for one to the temporary that it was given (GCC bug 107532).
      target_compile_options(${target} PRIVATE -Wno-dangling-reference)
    endif()
  endif()
  if(TESSERA_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)  # It takes a source that others are compiled with for a header.
  endif()
  if(TESSERA_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${TESSERA_SANITIZE} -fno-omit-frame-pointer
                                             -fno-sanitize-recover=all)
    target_link_options(${target} PRIVATE -fsanitize=${TESSERA_SANITIZE})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND TESSERA_SANITIZE MATCHES "thread")
      target_compile_options(${target} PRIVATE -Wno-tsan)  # LibTorch's headers have fences, of which g++ warns.
    endif()
  endif()
  if(TESSERA_FUZZ)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)  # Coverage for the fuzzers.
  endif()
endfunction()

# Sources that use the same local names as others of their program or room are compiled by themselves.
function(tessera_compile_alone)
  if(ARGN)
    set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# The same for a program with many of them: sources of one group, which share no local name, are compiled at once.
function(tessera_compile_group group)
  set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP ${group})
endfunction()
function(tessera_compile_in_groups target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
endfunction()

# Sources that include LibTorch's inner headers: in them at::RecordFunction has another layout without NDEBUG than in the released
# libraries. Our public headers include none of those, so users choose for themselves.
function(tessera_torch_code target)
  target_compile_definitions(${target} PRIVATE NDEBUG)
endfunction()

# Tests are compiled for one run, in which optimising them would take longer than it saves.
function(tessera_test_code target)
  tessera_own_code(${target})
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()
