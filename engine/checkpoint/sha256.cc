#include "engine/checkpoint/sha256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "engine/base/error.h"
#include "engine/checkpoint/hex.h"

namespace dtrain {

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

namespace {

constexpr std::size_t kDigestBytes = 32;
// Of RFC 2104, for SHA-256.
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
        EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::Update(std::span<const std::byte> bytes) {
  Check(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::Finish() {
  const std::string digest = FinishBytes();
  return ToHex(std::as_bytes(std::span(digest)));
}

std::string Sha256::FinishBytes() {
  std::string digest(kDigestBytes, '\0');
  Check(EVP_DigestFinal_ex(context_->evp,
                           reinterpret_cast<unsigned char*>(digest.data()),
                           nullptr) == 1);
  return digest;
}

std::string Sha256Of(std::span<const std::byte> bytes) {
  Sha256 sha;
  sha.Update(bytes);
  return sha.Finish();
}

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
  for (char& byte : block) byte ^= kInnerPad ^ kOuterPad;
  Sha256 outer;
  update(outer, block);
  update(outer, inner.FinishBytes());
  return outer.FinishBytes();
}

bool AreEqualInConstantTime(std::string_view left, std::string_view right) {
  return left.size() == right.size() &&
         CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

}  // namespace dtrain
