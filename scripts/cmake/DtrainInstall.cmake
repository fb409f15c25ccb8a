# `cmake --install build/release --prefix P` creates the same directories as in the
# build tree, so that programs find each other and their libraries by relative paths
# and P (and the build tree) can be moved. LibTorch stays where it is.
#
#   P/bin/dtrain   P/libexec/dtrain/*   P/lib/libdtrain_trial*.so
#   P/include/dtrain, P/lib/dtrain   what a model_def.cpp is compiled with
#                      (DtrainOwnModels.cmake)
#   P/lib/dtrain/python                     the module `dtrain` for programs
#   P/share/dtrain/configs
#   P/share/man, P/share/{bash-completion,zsh,fish}
# `program` is what a user runs: everything but the tests.
add_custom_target(program)
include(DtrainPackage)
function(dtrain_install target destination rpath)
  if(TARGET ${target})
    add_dependencies(program ${target})
    set_target_properties(${target} PROPERTIES
      INSTALL_RPATH ${rpath}
      INSTALL_RPATH_USE_LINK_PATH ON
      BUILD_WITH_INSTALL_RPATH ON)
    if(DTRAIN_PACKAGE)
      dtrain_package_rpath(${target} ${destination})
    endif()
    install(TARGETS ${target}
      RUNTIME DESTINATION ${destination} LIBRARY DESTINATION ${destination})
  endif()
endfunction()

dtrain_install(dtrain bin $ORIGIN/../lib)
dtrain_install(trial_host libexec/dtrain $ORIGIN/../../lib)
dtrain_install(command_host libexec/dtrain $ORIGIN/../../lib)
dtrain_install(data_fetch libexec/dtrain $ORIGIN/../../lib)
dtrain_install(dtrain_trial lib $ORIGIN)
dtrain_install(dtrain_trial_cuda lib $ORIGIN)
if(TARGET trial_host)
  set_target_properties(trial_host PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/libexec/dtrain)
endif()

# The Python module, which the command host puts on the path of programs.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/lib/dtrain)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/engine/python ${PROJECT_BINARY_DIR}/lib/dtrain/python SYMBOLIC)
install(DIRECTORY engine/python/dtrain DESTINATION lib/dtrain/python FILES_MATCHING
  PATTERN "*.py" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE)

if(EXISTS ${PROJECT_SOURCE_DIR}/configs)
  install(DIRECTORY configs DESTINATION share/dtrain FILES_MATCHING
    PATTERN "*.yaml" PATTERN "*.py" PATTERN "*.sh")
endif()

# Manual pages and completion scripts, which dtrain writes itself. The pages are not
# compressed: packaging does that (Debian's dh_compress). Their date is that of
# SOURCE_DATE_EPOCH, if it is set.
if(NOT CMAKE_CROSSCOMPILING)
  set(_share ${PROJECT_BINARY_DIR}/share)
  string(TIMESTAMP _date "%Y-%m-%d" UTC)
  add_custom_command(OUTPUT ${_share}/man/man1/dtrain.1
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${_share}/man/man1
    COMMAND dtrain __share ${_share} ${_date}
    DEPENDS dtrain VERBATIM)
  add_custom_target(share_files ALL DEPENDS ${_share}/man/man1/dtrain.1)
  add_dependencies(program share_files)
  install(DIRECTORY ${_share}/ DESTINATION share)
endif()
