#include "cc/cuda/ptx/runtime/fat_binary.h"

#include <cstdint>
#include <cstring>

#include "cc/cuda/ptx/module.h"

namespace tf_hsm {
namespace ptx {
namespace {

// As far as it is read here; NVIDIA documents the first alone
// (fatbinary_section.h).
struct Wrapper {
  static constexpr uint32_t kMagic = 0x466243b1;
  uint32_t magic;
  uint32_t version;
  const char* container;
};
struct Container {
  static constexpr uint32_t kMagic = 0xba55ed50;
  uint32_t magic;
  uint16_t version;
  uint16_t header_bytes;
  uint64_t bytes;  // of all that follows
};
struct Item {
  static constexpr uint16_t kPtx = 1;
  uint16_t kind;
  uint16_t version;
  uint32_t header_bytes;
  uint64_t bytes;             // of what follows the header
  uint32_t compressed_bytes;  // 0: not compressed
};

}  // namespace

std::string PtxOf(const void* fat_binary) {
  Wrapper wrapper;
  std::memcpy(&wrapper, fat_binary, sizeof(wrapper));
  Container container;
  std::memcpy(&container, wrapper.container, sizeof(container));
  if (wrapper.magic != Wrapper::kMagic ||
      container.magic != Container::kMagic) {
    throw Unsupported("this nvcc packs its output in another way");
  }
  const char* at = wrapper.container + container.header_bytes;
  const char* end = at + container.bytes;
  while (at < end) {
    Item item;
    std::memcpy(&item, at, sizeof(item));
    const char* text = at + item.header_bytes;
    at = text + item.bytes;
    if (item.kind != Item::kPtx) continue;
    if (item.compressed_bytes != 0) {
      throw Unsupported("compressed PTX: nvcc needs --no-compress");
    }
    return std::string(text, strnlen(text, item.bytes));
  }
  throw Unsupported("no PTX: nvcc needs code=compute_NN");
}

}  // namespace ptx
}  // namespace tf_hsm
