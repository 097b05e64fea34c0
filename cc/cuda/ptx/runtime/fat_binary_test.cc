// Containers as nvcc makes them, written by hand.

#include "cc/cuda/ptx/runtime/fat_binary.h"

#include <cstdint>
#include <cstring>
#include <string>

#include "cc/core/testing/test_support.h"
#include "cc/cuda/ptx/module.h"

namespace tf_hsm {
namespace ptx {
namespace {

template <typename T>
std::string Bytes(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

// An item with a header of 24 bytes: kind 1 is PTX, 2 machine code.
std::string Item(uint16_t kind, const std::string& content,
                 uint32_t compressed_bytes) {
  return Bytes(kind) + Bytes(uint16_t{0x101}) + Bytes(uint32_t{24}) +
         Bytes(static_cast<uint64_t>(content.size())) +
         Bytes(compressed_bytes) + Bytes(uint32_t{0}) + content;
}

// The text that is found, or the error.
std::string Read(const std::string& items, uint32_t magic = 0xba55ed50) {
  const std::string container =
      Bytes(magic) + Bytes(uint16_t{1}) + Bytes(uint16_t{16}) +
      Bytes(static_cast<uint64_t>(items.size())) + items;
  const std::string wrapper = Bytes(uint32_t{0x466243b1}) + Bytes(uint32_t{1}) +
                              Bytes(container.data()) + Bytes(uint64_t{0});
  try {
    return PtxOf(wrapper.data());
  } catch (const Unsupported& unsupported) {
    return unsupported.what();
  }
}

void CheckAll() {
  const std::string padded("ret;\0\0\0\0", 8);
  Expect(Read(Item(1, padded, 0)) == "ret;", "PTX");
  Expect(Read(Item(2, "code", 0) + Item(1, padded, 0)) == "ret;",
         "PTX behind machine code");
  Expect(Read(Item(2, "code", 0)) == "no PTX: nvcc needs code=compute_NN",
         "machine code alone");
  Expect(Read("") == "no PTX: nvcc needs code=compute_NN", "nothing");
  Expect(Read(Item(1, "....", 4)).find("--no-compress") != std::string::npos,
         "compressed PTX");
  Expect(Read(Item(1, padded, 0), 1).find("another way") != std::string::npos,
         "an unknown container");
}

}  // namespace
}  // namespace ptx
}  // namespace tf_hsm

int main() {
  tf_hsm::ptx::CheckAll();
  return tf_hsm::Summarize();
}
