#include "engine/fetch/shared_library.h"

#include <string>

#include <dlfcn.h>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {

SharedLibrary::SharedLibrary(const char* name, const char* package)
    : name_(name), handle_(::dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ != nullptr) return;
  const char* why = ::dlerror();
  throw Error(ErrorKind::kFailed,
              std::string(name) + ": cannot be opened: " +
                  EscapeForTerminal(why == nullptr ? "" : why) +
                  "; install the package " + package);
}

void* SharedLibrary::Symbol(const char* name) const {
  if (void* symbol = ::dlsym(handle_, name)) return symbol;
  throw Error(ErrorKind::kFailed, std::string(name_) + ": has no " + name +
                                      "; install a newer one");
}

}  // namespace dtrain
