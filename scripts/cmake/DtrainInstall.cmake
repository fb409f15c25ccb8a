# `cmake --install build/release --prefix P` creates the same directories as in the
# build tree, so that programs find each other and their libraries by relative paths
# and P (and the build tree) can be moved. LibTorch stays where it is.
#
#   P/bin/dtrain   P/libexec/dtrain/*   P/lib/libdtrain_trial*.so
#   P/include/dtrain, P/lib/dtrain   what a model_def.cpp is compiled with
#                      (DtrainOwnModels.cmake)
#   P/share/dtrain/configs
# `program` is what a user runs: everything but the tests.
add_custom_target(program)
function(dtrain_install target destination rpath)
  if(TARGET ${target})
    add_dependencies(program ${target})
    set_target_properties(${target} PROPERTIES
      INSTALL_RPATH ${rpath}
      INSTALL_RPATH_USE_LINK_PATH ON
      BUILD_WITH_INSTALL_RPATH ON)
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

if(EXISTS ${PROJECT_SOURCE_DIR}/configs)
  install(DIRECTORY configs DESTINATION share/dtrain FILES_MATCHING
    PATTERN "*.yaml" PATTERN "*.py" PATTERN "*.sh")
endif()
