# `cmake --install`, and find_package(tessera [COMPONENTS core]) for those who use it.
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)
install(EXPORT tessera FILE tesseraTargets.cmake NAMESPACE tessera:: DESTINATION ${package_folder})
if(TESSERA_TORCH)
  install(EXPORT tessera-torch FILE tesseraTorchTargets.cmake NAMESPACE tessera:: DESTINATION ${package_folder})
endif()
set(TESSERA_SHARED OFF)
if(BUILD_SHARED_LIBS)
  set(TESSERA_SHARED ON)
endif()
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tesseraConfig.cmake.in ${PROJECT_BINARY_DIR}/tesseraConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tesseraConfigVersion.cmake VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tesseraConfig.cmake ${PROJECT_BINARY_DIR}/tesseraConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/TesseraTorch.cmake
        DESTINATION ${package_folder})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
