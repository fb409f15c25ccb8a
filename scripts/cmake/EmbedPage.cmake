# Writes OUTPUT, a source file with the pages as texts. That of `dtrain report` has
# a style, HTML and one script: the libraries LIBRARIES, whose license is LICENSE,
# and the modules SCRIPTS, joined without their import and export words, because a
# page on disk cannot import files. That of `dtrain serve` has the same parts as
# files: LIVE_HTML as /, the libraries as /d3.js, the modules under their names,
# and LIVE_FILES. An unchanged file is not rewritten.
#
#   cmake -D OUTPUT=… -D LIBRARIES=a:b -D SCRIPTS=c:d -D LICENSE=… -D STYLE=… -D HTML=…
#     -D LIVE_HTML=… -D LIVE_FILES=e:f -P …
string(REPLACE ":" ";" LIBRARIES "${LIBRARIES}")
string(REPLACE ":" ";" SCRIPTS "${SCRIPTS}")
string(REPLACE ":" ";" LIVE_FILES "${LIVE_FILES}")

file(READ "${LICENSE}" license)
set(libraries "/*!\n${license}*/\n")
foreach(file IN LISTS LIBRARIES)
  file(READ "${file}" text)
  string(APPEND libraries "${text}\n")
endforeach()
set(script "(function () {\n'use strict';\n")
set(names)
foreach(file IN LISTS SCRIPTS LIVE_FILES)
  file(READ "${file}" text)
  cmake_path(GET file FILENAME name)
  list(APPEND names "${name}")
  set("text_${name}" "${text}")
endforeach()
foreach(file IN LISTS SCRIPTS)
  file(READ "${file}" text)
  string(REGEX REPLACE "(^|\n)import [^;]*;" "\\1" text "${text}")
  string(REGEX REPLACE "(^|\n)export (async|function|class|const|let) " "\\1\\2 " text "${text}")
  string(APPEND script "${text}\n")
endforeach()
string(APPEND script "})();\n")
file(READ "${STYLE}" style)
file(READ "${HTML}" html)
file(READ "${LIVE_HTML}" live)
if(NOT LIBRARIES)
  set(html "")
endif()

set(source "// Written by scripts/cmake/EmbedPage.cmake.\n")
string(APPEND source "#include \"engine/page/report_page.h\"\n\nnamespace dtrain {\n\n")
foreach(name IN ITEMS libraries script style html)
  string(APPEND source
    "const char kPage_${name}[] = R\"dtrain_page(${${name}})dtrain_page\";\n\n")
endforeach()
set(type_js "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")
string(APPEND source "std::span<const PageFile> PageFiles() {\n"
  "  static constexpr PageFile kFiles[] = {\n"
  "      {\"/\", \"text/html; charset=utf-8\", R\"dtrain_page(${live})dtrain_page\"},\n"
  "      {\"/style.css\", \"text/css; charset=utf-8\", kPage_style},\n"
  "      {\"/d3.js\", \"${type_js}\", kPage_libraries},\n")
foreach(name IN LISTS names)
  cmake_path(GET name EXTENSION LAST_ONLY extension)
  string(REPLACE "." "" extension "${extension}")
  string(APPEND source "      {\"/${name}\", \"${type_${extension}}\", "
    "R\"dtrain_page(${text_${name}})dtrain_page\"},\n")
endforeach()
string(APPEND source "  };\n  return kFiles;\n}\n\n}  // namespace dtrain\n")
set(old "")
if(EXISTS "${OUTPUT}")
  file(READ "${OUTPUT}" old)
endif()
if(NOT old STREQUAL source)
  file(WRITE "${OUTPUT}" "${source}")
endif()
