# Compiles through ccache where it is installed, such that a second clone or a
# second build directory's twin hits too: paths count relative to the checkout,
# and the precompiled Torch header is accepted.
find_program(DTRAIN_CCACHE ccache)
mark_as_advanced(DTRAIN_CCACHE)
if(DTRAIN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER env
    CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=true
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    ${DTRAIN_CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endif()
