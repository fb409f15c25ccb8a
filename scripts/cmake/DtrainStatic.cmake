# Links a program with the archives of its libraries instead of the shared ones,
# where the archives are installed. The dynamic linker takes nearly half of the
# time of a short command: `dtrain --version` executed 7.8 million instructions with
# shared libraries and 4.3 million with archives. Programs with LibTorch need the
# shared C++ library and stay as they are, and so do sanitizer builds.
#
#   dtrain_linked_library(NAME TARGET ARCHIVE)  defines NAME: ARCHIVE for programs of
#                                               dtrain_link_statically, else TARGET
#   dtrain_link_statically(PROGRAM)
# DTRAIN_LIBC_SYSROOT names a directory with an older glibc (libc6 and libc6-dev of a
# Debian release). These programs are then linked with it and run wherever it or a newer
# one is; what the archives take from a newer one is in engine/os/older_libc.cc.
# scripts/package sets it, which checks the result.
set(DTRAIN_LIBC_SYSROOT "" CACHE PATH "Directory of an older glibc to link programs with")
if(DTRAIN_LIBC_SYSROOT)
  add_library(dtrain_older_libc OBJECT ${PROJECT_SOURCE_DIR}/engine/os/older_libc.cc)
  # GCC searches the directories of its own C library before those of --sysroot.
  set(_lib ${DTRAIN_LIBC_SYSROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
  target_link_options(dtrain_older_libc INTERFACE
    --sysroot=${DTRAIN_LIBC_SYSROOT} -B${_lib} -L${_lib})
  target_link_libraries(dtrain_older_libc INTERFACE dl pthread)
endif()

function(dtrain_linked_library name target archive)
  add_library(${name} INTERFACE)
  find_library(DTRAIN_${archive} ${archive})
  mark_as_advanced(DTRAIN_${archive})
  if(NOT DTRAIN_${archive} OR DTRAIN_SANITIZE)
    target_link_libraries(${name} INTERFACE ${target})
    return()
  endif()
  set(static $<BOOL:$<TARGET_PROPERTY:DTRAIN_LINKED_STATICALLY>>)
  target_link_libraries(${name} INTERFACE
    $<IF:${static},${DTRAIN_${archive}}$<SEMICOLON>m$<SEMICOLON>Threads::Threads,${target}>)
endfunction()

function(dtrain_link_statically program)
  if(NOT DTRAIN_SANITIZE)
    set_target_properties(${program} PROPERTIES DTRAIN_LINKED_STATICALLY ON)
    target_link_options(${program} PRIVATE -static-libstdc++ -static-libgcc)
    if(DTRAIN_LIBC_SYSROOT)
      target_link_libraries(${program} PRIVATE dtrain_older_libc)
    endif()
  endif()
endfunction()

dtrain_linked_library(dtrain_event_core Libevent::core libevent_core.a)
dtrain_linked_library(dtrain_event_extra Libevent::extra libevent_extra.a)
dtrain_linked_library(dtrain_re2 re2::re2 libre2.a)
dtrain_linked_library(dtrain_sqlite SQLite::SQLite3 libsqlite3.a)
dtrain_linked_library(dtrain_yaml yaml-cpp libyaml-cpp.a)
dtrain_linked_library(dtrain_zlib ZLIB::ZLIB libz.a)
# SQLiteCpp names SQLite itself.
get_target_property(_links SQLiteCpp INTERFACE_LINK_LIBRARIES)
list(TRANSFORM _links REPLACE "^SQLite::SQLite3$" dtrain_sqlite)
set_target_properties(SQLiteCpp PROPERTIES INTERFACE_LINK_LIBRARIES "${_links}")
