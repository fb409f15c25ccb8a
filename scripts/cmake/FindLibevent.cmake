# Finds libevent's core and HTTP server. scripts/setup installs it.
#
#   Libevent::core, Libevent::extra    header and libraries
find_path(LIBEVENT_INCLUDE_DIR event2/http.h)
find_library(LIBEVENT_CORE_LIBRARY event_core)
find_library(LIBEVENT_EXTRA_LIBRARY event_extra)
mark_as_advanced(LIBEVENT_INCLUDE_DIR LIBEVENT_CORE_LIBRARY LIBEVENT_EXTRA_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Libevent
  REQUIRED_VARS LIBEVENT_EXTRA_LIBRARY LIBEVENT_CORE_LIBRARY LIBEVENT_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "run scripts/setup")

if(LIBEVENT_FOUND)
  foreach(part IN ITEMS core extra)
    string(TOUPPER ${part} upper)
    add_library(Libevent::${part} UNKNOWN IMPORTED GLOBAL)
    set_target_properties(Libevent::${part} PROPERTIES
      IMPORTED_LOCATION "${LIBEVENT_${upper}_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${LIBEVENT_INCLUDE_DIR}")
  endforeach()
endif()
