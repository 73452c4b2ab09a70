# `cpack --config build/release/CPackConfig.cmake`: the part without torch as a Debian package. LibTorch is no Debian package, so
# what needs it is installed by `cmake --install`.
if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tessera)
set(CPACK_PACKAGE_VENDOR "The Tessera authors")
set(CPACK_PACKAGE_CONTACT "The Tessera authors <tessera@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Layouts and pipeline schedules of N-D parallel training")
set(CPACK_PACKAGE_DESCRIPTION "Shows, checks and simulates how ranks form groups and how pipelines run, and starts the ranks of a job.
 Programs, library and headers that need no torch.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL core)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
find_program(TESSERA_SHLIBDEPS dpkg-shlibdeps)
if(TESSERA_SHLIBDEPS)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # Names the packages of the shared libraries that the program loads.
endif()
set(CPACK_STRIP_FILES ON)
include(CPack)
