# LibTorch as one target, tessera_torch, instead of the wide flags that its own package sets.
# A CUDA build wants the whole toolkit from find_package(Torch); where only its CPU part is used, the libraries suffice.

find_package(Torch 2.11 REQUIRED)

add_library(tessera_torch INTERFACE)
target_include_directories(tessera_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
target_link_libraries(tessera_torch INTERFACE ${TORCH_LIBRARIES})
# at::RecordFunction has another layout without NDEBUG than in the released libraries.
target_compile_definitions(tessera_torch INTERFACE NDEBUG)
