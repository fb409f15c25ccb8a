#include "engine/image/image.h"

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
void FailImage(const std::string& what, const std::string& fault) {
  throw Error(ErrorKind::kFailed, EscapeForTerminal(what + ": " + fault) +
                                      "; replace it or delete it");
}

void CheckImageSize(const std::string& what, std::uint64_t height,
                    std::uint64_t width, std::size_t size,
                    std::uint64_t pixels_per_byte) {
  if (height == 0 || width == 0) FailImage(what, "it has no pixels");
  const std::string pixels =
      std::to_string(width) + "x" + std::to_string(height) + " pixels";
  if (width > kMostPixels / height) {
    FailImage(what, "it has " + pixels + ", but at most " +
                        std::to_string(kMostPixels) + " are read");
  }
  if (height * width / pixels_per_byte > size) {
    FailImage(what, "it is cut short or damaged: " + std::to_string(size) +
                        " bytes cannot hold " + pixels);
  }
}

}  // namespace dtrain
