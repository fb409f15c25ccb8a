# Run after a test executable is linked: makes each suite of it a test of
# CTest's, so that what a process costs to start is paid once a suite.
#   cmake -D EXECUTABLE=... -D FILE=... -D LABEL=... -P discover_suites.cmake
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
    string(APPEND content
      "add_test([=[${suite}]=] [=[${EXECUTABLE}]=] [=[--gtest_filter=${suite}.*]=])\n"
      # CTest would report a suite of which one test is skipped as passed.
      "set_tests_properties([=[${suite}]=] PROPERTIES TIMEOUT 1200 LABELS [=[${LABEL}]=] FAIL_REGULAR_EXPRESSION [=[\\[  SKIPPED \\]]=])\n")
  endif()
endforeach()
file(WRITE ${FILE} "${content}")
