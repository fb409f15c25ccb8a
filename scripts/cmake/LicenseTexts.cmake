# Copies the licence texts of the distribution's libraries that a package contains.
#
#   cmake -DDIRECTORY=DIR -DPACKAGES=NAME;... -DLIBRARIES=FILE;... -P LicenseTexts.cmake
#
#   PACKAGES   Debian packages
#   LIBRARIES  files of others
#
# DIR/PACKAGE is the package's file of copyrights. DIR/common-licenses has the texts
# that these files only name.
cmake_policy(VERSION 3.25)

foreach(_library IN LISTS LIBRARIES)
  file(REAL_PATH ${_library} _file)
  # Packages may name a file in /lib, which is a link to /usr/lib.
  string(REGEX REPLACE "^/usr/lib" "/lib" _other ${_file})
  execute_process(COMMAND dpkg -S ${_file} ${_other} OUTPUT_VARIABLE _owner ERROR_QUIET)
  if(_owner STREQUAL "")
    message(FATAL_ERROR "${_file} is not a file of a Debian package, so its licence is "
      "not known; build packages on Debian")
  endif()
  string(REGEX REPLACE "[:,].*" "" _owner "${_owner}")
  list(APPEND PACKAGES ${_owner})
endforeach()
list(REMOVE_DUPLICATES PACKAGES)

file(MAKE_DIRECTORY ${DIRECTORY}/common-licenses)
foreach(_package IN LISTS PACKAGES)
  set(_text /usr/share/doc/${_package}/copyright)
  if(NOT EXISTS ${_text})
    message(FATAL_ERROR "the licence text of ${_package}, ${_text}, is missing; "
      "build packages on Debian, with the documentation of its packages")
  endif()
  file(REAL_PATH ${_text} _text)
  file(COPY_FILE ${_text} ${DIRECTORY}/${_package})
  file(READ ${_text} _content)
  string(REGEX MATCHALL "/usr/share/common-licenses/[A-Za-z0-9.+-]*[A-Za-z0-9]" _named
    "${_content}")
  foreach(_common IN LISTS _named)
    if(EXISTS ${_common})
      get_filename_component(_name ${_common} NAME)
      file(REAL_PATH ${_common} _common)
      file(COPY_FILE ${_common} ${DIRECTORY}/common-licenses/${_name})
    endif()
  endforeach()
endforeach()
