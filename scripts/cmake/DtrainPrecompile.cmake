# The headers that a file without Torch spends most of its compile time on are
# compiled once for the modules and once for the tests. GCC takes a precompiled
# header only with the flags that it was made with, hence one for each.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled.cc CONTENT "" @ONLY)

set(DTRAIN_COMMON_HEADERS
  <algorithm> <chrono> <filesystem> <functional> <map> <memory> <optional>
  <set> <span> <string> <string_view> <utility> <variant> <vector>
  <nlohmann/json.hpp>)

add_library(dtrain_common_pch OBJECT ${PROJECT_BINARY_DIR}/precompiled.cc)
target_link_libraries(dtrain_common_pch PRIVATE dtrain_options)
target_precompile_headers(dtrain_common_pch PRIVATE ${DTRAIN_COMMON_HEADERS})

# The program's own code, of which each test runs little, is compiled without
# optimization under a sanitizer. With ASan and UBSan cli/run.cc takes 22.7 s of
# processor time with -O1, 19.8 without UBSan, 19.1 with ASan's checks as calls and
# 14.4 with -O0.
if(DTRAIN_SANITIZE)
  add_library(dtrain_plain_pch OBJECT ${PROJECT_BINARY_DIR}/precompiled.cc)
  target_link_libraries(dtrain_plain_pch PRIVATE dtrain_options)
  target_compile_options(dtrain_plain_pch PRIVATE -O0)
  target_precompile_headers(dtrain_plain_pch PRIVATE ${DTRAIN_COMMON_HEADERS})
endif()

# Tests are compiled without optimization, since they run once per build, and
# without UBSan, which adds a quarter to the time (tests of engine/wire: 22.5 s
# become 28.1) and is for the code that they test.
function(dtrain_test_options target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF DTRAIN_NO_UBSAN ON)
  target_compile_options(${target} PRIVATE -O0)
endfunction()

if(DTRAIN_TESTS)
  add_library(dtrain_test_pch OBJECT ${PROJECT_BINARY_DIR}/precompiled.cc)
  target_link_libraries(dtrain_test_pch PRIVATE dtrain_options GTest::gmock)
  dtrain_test_options(dtrain_test_pch)
  target_precompile_headers(dtrain_test_pch PRIVATE
    ${DTRAIN_COMMON_HEADERS} <fstream> <gmock/gmock.h> <gtest/gtest.h>)
endif()
