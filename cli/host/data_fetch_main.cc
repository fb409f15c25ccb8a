#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "engine/fetch/download.h"
#include "engine/fetch/fetch_program.h"
#include "engine/fetch/fetch_set.h"

// `data-fetch SET FROM FORCE PLACE...`: executed by `dtrain data fetch`, so
// that no other command has to load libcurl and libarchive. See
// fetch_program.cc. `data-fetch --post` sends a message of an experiment.
int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + (argc > 0), argv + argc);
  if (arguments == std::vector<std::string>{"--post"}) {
    return dtrain::ServePost();
  }
  if (arguments.size() < 4) {
    std::fprintf(stderr,
                 "data-fetch: downloads data sets for dtrain; not to be called "
                 "by hand, use 'dtrain data fetch'\n");
    return 2;
  }
  return dtrain::ServeFetch(arguments, dtrain::FetchSet);
}
