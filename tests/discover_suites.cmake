# Runs after a test executable is linked and writes FILE, which makes each of its
# suites a test of CTest, so that the start of a process is paid once per suite, or
# with EACH each of its tests. CTest starts the suites and tests of FIRST, a list,
# before all others.
#   cmake -D EXECUTABLE=... -D FILE=... -D LABEL=... -D FIRST=... -D EACH=... -P discover_suites.cmake
cmake_policy(VERSION 3.25)
execute_process(COMMAND ${EXECUTABLE} --gtest_list_tests
  OUTPUT_VARIABLE listed RESULT_VARIABLE code TIMEOUT 60)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "${EXECUTABLE} --gtest_list_tests: ${code}")
endif()
string(REGEX REPLACE "\n$" "" listed "${listed}")
string(REPLACE ";" "\;" listed "${listed}")
string(REPLACE "\n" ";" lines "${listed}")
set(content "")
foreach(line IN LISTS lines)
  # Tests are indented below their suite, "Suite.  # TypeParam = ...".
  if(line MATCHES "^([^ ]+)\\.( |$)")
    set(suite ${CMAKE_MATCH_1})
    set(name ${suite})
    set(filter ${suite}.*)
    # Otherwise CTest would report a suite with a skipped test as passed.
    set(skipped FAIL_REGULAR_EXPRESSION)
    if(EACH)
      continue()
    endif()
  elseif(EACH AND line MATCHES "^  ([^ ]+)")
    set(name ${suite}.${CMAKE_MATCH_1})
    set(filter ${name})
    set(skipped SKIP_REGULAR_EXPRESSION)
  else()
    continue()
  endif()
  set(cost 0)
  if(suite IN_LIST FIRST OR name IN_LIST FIRST)
    set(cost 1000)
  endif()
  string(APPEND content
    "add_test([=[${name}]=] [=[${EXECUTABLE}]=] [=[--gtest_filter=${filter}]=])\n"
    "set_tests_properties([=[${name}]=] PROPERTIES TIMEOUT 1200 COST ${cost} LABELS [=[${LABEL}]=] ${skipped} [=[\\[  SKIPPED \\]]=])\n")
endforeach()
file(WRITE ${FILE} "${content}")
