# `cmake --install`, and find_package(tessera [COMPONENTS core]) for those who use it.
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)
install(EXPORT tessera FILE tesseraTargets.cmake NAMESPACE tessera:: DESTINATION ${package_folder})
if(TESSERA_TORCH)
  install(EXPORT tessera-torch FILE tesseraTorchTargets.cmake NAMESPACE tessera:: DESTINATION ${package_folder} COMPONENT torch)
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

# pkg-config tessera-core: the part without torch. LibTorch has no pkg-config file, so that the whole library has none either.
get_property(core_libraries GLOBAL PROPERTY tessera_core_libraries)
list(REVERSE core_libraries)  # A static library stands before those that it uses.
list(TRANSFORM core_libraries PREPEND -l)
list(JOIN core_libraries " " TESSERA_CORE_LIBRARIES)
file(RELATIVE_PATH TESSERA_PKGCONFIG_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
set(TESSERA_CORE_PRIVATE "-lyaml-cpp")
if(TESSERA_HAS_TEXT)
  string(APPEND TESSERA_CORE_PRIVATE " -lpcre2-8 -lutf8proc")
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/tessera-core.pc.in ${PROJECT_BINARY_DIR}/tessera-core.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tessera-core.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
