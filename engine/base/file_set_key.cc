#include "engine/base/file_set_key.h"

#include <system_error>

#include "engine/base/spread_bits.h"

namespace dtrain {

namespace fs = std::filesystem;

void FileSetKey::Add(const fs::path& file) {
  std::error_code error;
  const fs::path path = fs::absolute(file, error);
  AddText(path.native());
  Mix(fs::file_size(path, error));
  Mix(static_cast<std::uint64_t>(
      fs::last_write_time(path, error).time_since_epoch().count()));
}

void FileSetKey::AddText(std::string_view text) {
  for (const char c : text) Mix(static_cast<unsigned char>(c));
}

void FileSetKey::Mix(std::uint64_t value) {
  value_ = SpreadBits(value_ ^ value);
}

}  // namespace dtrain
