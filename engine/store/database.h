#pragma once

#include <filesystem>
#include <memory>

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>

#include "engine/store/layout.h"

namespace dtrain {

/// Throws Error(kStore) for what went wrong with the store: where, what, and
/// what to do, in one line.
[[noreturn]] void ThrowStoreError(const StoreLayout& layout,
                                  const SQLite::Exception& error);

/// Carries out `body` with SQLite's exceptions translated.
template <typename Body>
auto WithStoreErrors(const StoreLayout& layout, Body&& body) {
  try {
    return body();
  } catch (const SQLite::Exception& error) {
    ThrowStoreError(layout, error);
  }
}

/// A connection to the database file, set up as dtrain wants it: no checkpoint
/// that it does not ask for, five seconds of patience with readers' locks.
/// Throws SQLite::Exception.
std::unique_ptr<SQLite::Database> OpenReadWrite(
    const std::filesystem::path& path);

/// As above, read-only. Where a full disk or a read-only medium forbids what
/// SQLite needs beside the file, reads the file as it lies, or a copy of it
/// with its write-ahead log, so that nothing that was committed is missed; but
/// not while a runner of the store may change it.
std::unique_ptr<SQLite::Database> OpenReadOnly(const StoreLayout& layout);

/// A copy of `from`, which lives as long as the connection.
std::unique_ptr<SQLite::Database> CopyToMemory(SQLite::Database& from);

/// A database that lives as long as the connection.
std::unique_ptr<SQLite::Database> OpenInMemory();

}  // namespace dtrain
