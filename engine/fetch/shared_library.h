#pragma once

namespace dtrain {

/// A library of this machine that is opened when it is first needed, and never
/// closed. Linked, libcurl and libarchive with the thirty libraries that they
/// need would double the time that every command takes to start.
class SharedLibrary {
 public:
  /// Throws Error(kFailed) that names `package` if there is no `name`.
  SharedLibrary(const char* name, const char* package);

  /// Sets `function` to the one that is called `name`. Throws Error(kFailed)
  /// if there is none.
  template <typename Function>
  void Find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(Symbol(name));
  }

 private:
  void* Symbol(const char* name) const;

  const char* name_;
  void* handle_;
};

}  // namespace dtrain
