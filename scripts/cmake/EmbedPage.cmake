# Writes OUTPUT, a source file with the page of `dtrain report` as texts: its
# style, its HTML and one script. The script is the libraries LIBRARIES, whose
# license is LICENSE, followed
# by the modules SCRIPTS, joined without their import and export words, because
# a page on disk cannot import files. An unchanged file is not rewritten.
#
#   cmake -D OUTPUT=… -D LIBRARIES=a:b -D SCRIPTS=c:d -D LICENSE=… -D STYLE=… -D HTML=… -P …
string(REPLACE ":" ";" LIBRARIES "${LIBRARIES}")
string(REPLACE ":" ";" SCRIPTS "${SCRIPTS}")

file(READ "${LICENSE}" license)
set(script "/*!\n${license}*/\n")
foreach(file IN LISTS LIBRARIES)
  file(READ "${file}" text)
  string(APPEND script "${text}\n")
endforeach()
string(APPEND script "(function () {\n'use strict';\n")
foreach(file IN LISTS SCRIPTS)
  file(READ "${file}" text)
  string(REGEX REPLACE "(^|\n)import [^;]*;" "\\1" text "${text}")
  string(REGEX REPLACE "(^|\n)export (async|function|class|const|let) " "\\1\\2 " text "${text}")
  string(APPEND script "${text}\n")
endforeach()
string(APPEND script "})();\n")
file(READ "${STYLE}" style)
file(READ "${HTML}" html)
if(NOT LIBRARIES)
  set(html "")
endif()

set(source "// Written by scripts/cmake/EmbedPage.cmake.\n")
string(APPEND source "#include \"engine/page/report_page.h\"\n\nnamespace dtrain {\n\n")
foreach(name IN ITEMS script style html)
  string(APPEND source
    "const char kPage_${name}[] = R\"dtrain_page(${${name}})dtrain_page\";\n\n")
endforeach()
string(APPEND source "}  // namespace dtrain\n")
set(old "")
if(EXISTS "${OUTPUT}")
  file(READ "${OUTPUT}" old)
endif()
if(NOT old STREQUAL source)
  file(WRITE "${OUTPUT}" "${source}")
endif()
