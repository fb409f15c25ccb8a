# Runs after a test executable is linked and writes FILE, which makes each of its
# suites a test of CTest, so that the start of a process is paid once per suite.
# CTest starts the suites of FIRST, a list, before all others.
#   cmake -D EXECUTABLE=... -D FILE=... -D LABEL=... -D FIRST=... -P discover_suites.cmake
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
    list(FIND FIRST ${suite} place)
    set(cost 0)
    if(NOT place EQUAL -1)
      set(cost 1000)
    endif()
    string(APPEND content
      "add_test([=[${suite}]=] [=[${EXECUTABLE}]=] [=[--gtest_filter=${suite}.*]=])\n"
      # Otherwise CTest would report a suite with a skipped test as passed.
      "set_tests_properties([=[${suite}]=] PROPERTIES TIMEOUT 1200 COST ${cost} LABELS [=[${LABEL}]=] FAIL_REGULAR_EXPRESSION [=[\\[  SKIPPED \\]]=])\n")
  endif()
endforeach()
file(WRITE ${FILE} "${content}")
