# Writes OUTPUT, a header with DTRAIN_ABI: a hash of the headers listed in the file
# LIST, one path per line, and of the text ALSO. An unchanged file is not rewritten.
file(STRINGS "${LIST}" headers)
set(text "${ALSO}")
foreach(header IN LISTS headers)
  file(SHA256 "${header}" hash)
  string(APPEND text "\n${hash}")
endforeach()
string(SHA256 hash "${text}")
file(CONFIGURE OUTPUT "${OUTPUT}" @ONLY CONTENT [[#pragma once

/// What a library of models and dtrain must have been compiled with alike.
#define DTRAIN_ABI "@hash@"
]])
