#include "engine/checkpoint/sha256.h"

#include <array>

#include <openssl/evp.h>

#include "engine/base/error.h"
#include "engine/checkpoint/hex.h"

namespace dtrain {

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

namespace {

void Check(bool worked) {
  if (worked) return;
  throw Error(ErrorKind::kFailed,
              "sha-256: the crypto library refuses it; check the OpenSSL "
              "installation");
}

}  // namespace

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  Check(context_->evp != nullptr &&
        EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::Update(std::span<const std::byte> bytes) {
  Check(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::Finish() {
  std::array<std::byte, 32> digest{};
  Check(EVP_DigestFinal_ex(context_->evp,
                           reinterpret_cast<unsigned char*>(digest.data()),
                           nullptr) == 1);
  return ToHex(digest);
}

std::string Sha256Of(std::span<const std::byte> bytes) {
  Sha256 sha;
  sha.Update(bytes);
  return sha.Finish();
}

}  // namespace dtrain
