# LibTorch as one target, tessera_torch. LibTorch's own CMake package is not used: it sets flags for every target and requires
# the whole CUDA toolkit even if only the CPU part is used. Headers and two libraries suffice; the CUDA libraries are added if
# the toolkit is there, too.
#
# The installed package includes this file as well, so it never stops CMake: tessera_torch_problem says what is wrong, or is empty.
# tessera_torch_wanted, if set, is the only version (major.minor) that will do.

set(tessera_torch_problem "")
find_path(Torch_DIR TorchConfig.cmake PATH_SUFFIXES share/cmake/Torch DOC "The folder of TorchConfig.cmake")
if(NOT EXISTS "${Torch_DIR}/TorchConfig.cmake")
  set(tessera_torch_problem "LibTorch was not found. Set Torch_DIR to the folder of TorchConfig.cmake (in a Python torch: torch/share/cmake/Torch)")
  return()
endif()
get_filename_component(torch_root ${Torch_DIR}/../../.. ABSOLUTE)
set(torch_version_file ${torch_root}/include/torch/headeronly/version.h)
if(NOT EXISTS ${torch_version_file})
  set(tessera_torch_problem "Torch_DIR=${Torch_DIR} belongs to no LibTorch 2.11 or newer: there is no ${torch_version_file}")
  return()
endif()

file(READ ${torch_version_file} torch_version_header)
string(REGEX MATCH "TORCH_VERSION_MAJOR ([0-9]+)" _ "${torch_version_header}")
set(torch_version ${CMAKE_MATCH_1})
string(REGEX MATCH "TORCH_VERSION_MINOR ([0-9]+)" _ "${torch_version_header}")
string(APPEND torch_version .${CMAKE_MATCH_1})
if(torch_version VERSION_LESS 2.11)
  set(tessera_torch_problem "LibTorch ${torch_version} in ${torch_root} is too old: Tessera needs 2.11 or newer")
  return()
endif()
# Classes change their layout from one minor version to the next; programs built against the wrong one crash or compute nonsense.
if(tessera_torch_wanted AND NOT torch_version VERSION_EQUAL tessera_torch_wanted)
  set(tessera_torch_problem "This Tessera was built with LibTorch ${tessera_torch_wanted}, but ${torch_root} is LibTorch ${torch_version}. Set Torch_DIR to a LibTorch ${tessera_torch_wanted}, or build Tessera with LibTorch ${torch_version}")
  return()
endif()

# The headers that LibTorch's own headers include. A Python torch has them beside itself; a toolkit may be incomplete.
set(TESSERA_HAS_CUDA OFF)
if(NOT TESSERA_CUDA STREQUAL OFF AND EXISTS ${torch_root}/lib/libtorch_cuda.so)
  find_package(CUDAToolkit QUIET)
  file(GLOB torch_nvidia ${torch_root}/../nvidia/*)
  set(cuda_hints ${torch_nvidia} ${CUDAToolkit_LIBRARY_ROOT} ${CUDAToolkit_INCLUDE_DIRS} ${CUDAToolkit_LIBRARY_DIR})
  find_library(TESSERA_CUDART NAMES cudart libcudart.so.13 libcudart.so.12 HINTS ${cuda_hints} PATH_SUFFIXES lib lib64)
  set(cuda_parts ${TESSERA_CUDART})
  foreach(header cuda_runtime_api crt/host_config cublas_v2 cusolverDn cusparse nccl)
    find_path(TESSERA_${header}_H ${header}.h HINTS ${cuda_hints} PATH_SUFFIXES include)
    list(APPEND cuda_parts ${TESSERA_${header}_H})
    list(APPEND cuda_includes ${TESSERA_${header}_H})
  endforeach()
  if(NOT cuda_parts MATCHES NOTFOUND)
    set(TESSERA_HAS_CUDA ON)
    list(REMOVE_DUPLICATES cuda_includes)
  endif()
endif()
if(TESSERA_CUDA STREQUAL ON AND NOT TESSERA_HAS_CUDA)
  set(tessera_torch_problem "TESSERA_CUDA=ON, but not all of it was found: LibTorch with CUDA in ${torch_root} (libtorch_cuda.so), libcudart, and the headers of CUDA and NCCL; found: ${cuda_parts}")
  return()
endif()

add_library(tessera_torch INTERFACE IMPORTED GLOBAL)
target_include_directories(tessera_torch SYSTEM INTERFACE ${torch_root}/include ${torch_root}/include/torch/csrc/api/include)
target_link_libraries(tessera_torch INTERFACE ${torch_root}/lib/libtorch_cpu.so ${torch_root}/lib/libc10.so)
target_compile_definitions(tessera_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
if(TESSERA_HAS_CUDA)
  target_include_directories(tessera_torch SYSTEM INTERFACE ${cuda_includes})
  # Registers the CUDA kernels when it is loaded; no symbol of it need be used.
  target_link_libraries(tessera_torch INTERFACE -Wl,--no-as-needed ${torch_root}/lib/libtorch_cuda.so -Wl,--as-needed
                                                ${torch_root}/lib/libc10_cuda.so ${TESSERA_CUDART})
  target_compile_definitions(tessera_torch INTERFACE TESSERA_CUDA USE_C10D_NCCL)
endif()
