# Finds the TurboJPEG library of libjpeg-turbo, whose config files some distributions
# lack. scripts/setup installs it.
#
#   TurboJpeg::turbojpeg    header and library
find_path(TurboJpeg_INCLUDE_DIR turbojpeg.h)
find_library(TurboJpeg_LIBRARY turbojpeg)
mark_as_advanced(TurboJpeg_INCLUDE_DIR TurboJpeg_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TurboJpeg
  REQUIRED_VARS TurboJpeg_LIBRARY TurboJpeg_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "run scripts/setup")

if(TurboJpeg_FOUND AND NOT TARGET TurboJpeg::turbojpeg)
  add_library(TurboJpeg::turbojpeg UNKNOWN IMPORTED GLOBAL)
  set_target_properties(TurboJpeg::turbojpeg PROPERTIES
    IMPORTED_LOCATION "${TurboJpeg_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${TurboJpeg_INCLUDE_DIR}")
endif()
