# Finds RE2, which has its own config file (and Abseil) only in newer versions.
# scripts/setup installs it.
#
#   re2::re2    header and library
find_package(re2 CONFIG QUIET)
if(TARGET re2::re2)
  set(RE2_FOUND TRUE)
  return()
endif()

find_path(RE2_INCLUDE_DIR re2/re2.h)
find_library(RE2_LIBRARY re2)
mark_as_advanced(RE2_INCLUDE_DIR RE2_LIBRARY re2_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(RE2
  REQUIRED_VARS RE2_LIBRARY RE2_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "run scripts/setup")

if(RE2_FOUND)
  add_library(re2::re2 UNKNOWN IMPORTED GLOBAL)
  set_target_properties(re2::re2 PROPERTIES
    IMPORTED_LOCATION "${RE2_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${RE2_INCLUDE_DIR}")
endif()
