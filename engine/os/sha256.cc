#include "engine/os/sha256.h"

#include <dlfcn.h>

#include <openssl/evp.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/files.h"

namespace dtrain {
namespace {

// OpenSSL's libcrypto, opened at the first checksum: linking it would add half
// a millisecond to the start of every command, and bind it to one version.
struct Crypto {
  decltype(&::EVP_MD_CTX_new) new_context = nullptr;
  decltype(&::EVP_MD_CTX_free) free_context = nullptr;
  decltype(&::EVP_sha256) sha256 = nullptr;
  decltype(&::EVP_DigestInit_ex) init = nullptr;
  decltype(&::EVP_DigestUpdate) update = nullptr;
  decltype(&::EVP_DigestFinal_ex) finish = nullptr;
};

template <typename Function>
void Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) {
    throw Error(ErrorKind::kFailed, std::string("sha-256: libcrypto has no ") +
                                        name +
                                        "; install OpenSSL 1.1 or newer");
  }
}

const Crypto& TheCrypto() {
  static const Crypto crypto = [] {
    // Older systems, on which dtrain runs without having been built there, have
    // OpenSSL 1.1 only. These functions are the same in both.
    void* library = nullptr;
    std::string why;
    for (const char* name : {"libcrypto.so.3", "libcrypto.so.1.1"}) {
      library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (library != nullptr) break;
      if (why.empty()) why = ::dlerror();
    }
    if (library == nullptr) {
      throw Error(ErrorKind::kFailed,
                  "sha-256: cannot open OpenSSL's library: " + why +
                      "; install it (Debian: libssl3)");
    }
    Crypto found;
    Find(library, "EVP_MD_CTX_new", found.new_context);
    Find(library, "EVP_MD_CTX_free", found.free_context);
    Find(library, "EVP_sha256", found.sha256);
    Find(library, "EVP_DigestInit_ex", found.init);
    Find(library, "EVP_DigestUpdate", found.update);
    Find(library, "EVP_DigestFinal_ex", found.finish);
    return found;
  }();
  return crypto;
}

}  // namespace

struct Sha256::Context {
  EVP_MD_CTX* evp = TheCrypto().new_context();
  ~Context() { TheCrypto().free_context(evp); }
};

namespace {

constexpr std::size_t kDigestBytes = 32;
// HMAC parameters of RFC 2104: the block size of SHA-256 and the two pads.
constexpr std::size_t kBlockBytes = 64;
constexpr char kInnerPad = 0x36;
constexpr char kOuterPad = 0x5c;

void Check(bool worked) {
  if (worked) return;
  throw Error(ErrorKind::kFailed,
              "sha-256: the crypto library refuses it; check the OpenSSL "
              "installation");
}

}  // namespace

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  Check(context_->evp != nullptr &&
        TheCrypto().init(context_->evp, TheCrypto().sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::Update(std::span<const std::byte> bytes) {
  Check(TheCrypto().update(context_->evp, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::Finish() {
  const std::string digest = FinishBytes();
  return ToHex(std::as_bytes(std::span(digest)));
}

std::string Sha256::FinishBytes() {
  std::string digest(kDigestBytes, '\0');
  Check(TheCrypto().finish(context_->evp,
                           reinterpret_cast<unsigned char*>(digest.data()),
                           nullptr) == 1);
  return digest;
}

std::string ComputeSha256(std::span<const std::byte> bytes) {
  Sha256 sha;
  sha.Update(bytes);
  return sha.Finish();
}

std::string Sha256OfFile(const std::filesystem::path& file) {
  const std::string bytes = ReadFile(file).value_or("");
  return ComputeSha256(std::as_bytes(std::span(bytes)));
}

// RFC 2104: H((K ^ opad) || H((K ^ ipad) || text)), where K is the key, or its
// hash if it is longer than a block, padded with zeros.
std::string HmacSha256(std::string_view key,
                       std::initializer_list<std::string_view> parts) {
  const auto update = [](Sha256& sha, std::string_view bytes) {
    sha.Update(std::as_bytes(std::span(bytes)));
  };
  std::string block(key);
  if (block.size() > kBlockBytes) {
    Sha256 sha;
    update(sha, key);
    block = sha.FinishBytes();
  }
  block.resize(kBlockBytes, '\0');
  for (char& byte : block) byte ^= kInnerPad;
  Sha256 inner;
  update(inner, block);
  for (const std::string_view part : parts) update(inner, part);
  // From one pad to the other.
  for (char& byte : block) byte ^= kInnerPad ^ kOuterPad;
  Sha256 outer;
  update(outer, block);
  update(outer, inner.FinishBytes());
  return outer.FinishBytes();
}

bool AreEqualInConstantTime(std::string_view left, std::string_view right) {
  if (left.size() != right.size()) return false;
  // Volatile, so that no compiler ends the loop at the first difference.
  volatile unsigned char difference = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    difference = static_cast<unsigned char>(
        difference | static_cast<unsigned char>(left[i] ^ right[i]));
  }
  return difference == 0;
}

}  // namespace dtrain
