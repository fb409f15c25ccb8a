// Fuzzes the reader of IDX files, plain or gzipped. The first byte of an input
// holds options for the rest: the lowest two bits are the number of dimensions
// to request; the next bit compresses the rest first, since mutations hardly
// ever yield valid gzip data.

#include <string>

#include <zlib.h>

#include "engine/data/dataset_readers.h"
#include "tests/fuzz/fuzz_target.h"

namespace dtrain {
namespace {

std::string Gzipped(std::string_view bytes) {
  z_stream stream{};
  Require(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + 16,
                       MAX_MEM_LEVEL, Z_DEFAULT_STRATEGY) == Z_OK,
          "zlib can compress");
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  Require(deflate(&stream, Z_FINISH) == Z_STREAM_END, "zlib can finish");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// Returns the IDX file that holds `array`.
std::string Written(const IdxArray& array) {
  std::string bytes = {'\0', '\0', '\x08',
                       static_cast<char>(array.shape.size())};
  for (const std::int64_t size : array.shape) {
    for (const int shift : {24, 16, 8, 0}) {
      bytes += static_cast<char>(size >> shift & 0xFF);
    }
  }
  return bytes.append(array.values.begin(), array.values.end());
}

void Check(std::string_view bytes, std::size_t dimensions, bool compress) {
  const std::string gzipped = compress ? Gzipped(bytes) : "";
  const ByteFile file(compress ? gzipped : bytes);
  IdxArray array;
  try {
    array = ReadIdx(file.path(), dimensions);
  } catch (const Error& error) {
    Require(error.kind() == ErrorKind::kFailed, "a bad file is a failure");
    RequireOneLine(error);
    return;
  }
  Require(array.shape.size() == dimensions, "the dimensions are as requested");
  const std::string written = Written(array);
  Require(!compress || written == bytes,
          "a compressed file reads as its content");
  const ByteFile again(written);
  Require(ReadIdx(again.path(), dimensions).values == array.values,
          "writing and reading again changes nothing");
}

}  // namespace
}  // namespace dtrain

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  dtrain::Check(dtrain::ToText(data + 1, size - 1), data[0] & 3u,
                (data[0] & 4u) != 0);
  return 0;
}
