# Manual pages and shell completion, made by running the programs that were just built.
if(CMAKE_CROSSCOMPILING)
  return()
endif()
set(help_folder ${PROJECT_BINARY_DIR}/help)
add_custom_command(OUTPUT ${help_folder}/tessera.bash
  COMMAND ${CMAKE_CURRENT_LIST_DIR}/help_pages $<TARGET_FILE:tessera> ${PROJECT_VERSION} ${help_folder}
  DEPENDS ${CMAKE_CURRENT_LIST_DIR}/help_pages tessera $<TARGET_NAME_IF_EXISTS:tessera-torch>
  COMMENT "Manual pages and shell completion" VERBATIM)
add_custom_target(help_pages ALL DEPENDS ${help_folder}/tessera.bash)
get_property(libraries GLOBAL PROPERTY tessera_libraries)
add_custom_target(library DEPENDS help_pages ${libraries})  # All that is installed.
# OPTIONAL: who builds the programs alone can install them without.
install(DIRECTORY ${help_folder}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} OPTIONAL)
install(FILES ${help_folder}/tessera.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME tessera OPTIONAL)
install(FILES ${help_folder}/_tessera DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions OPTIONAL)
install(FILES ${help_folder}/tessera.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d OPTIONAL)
