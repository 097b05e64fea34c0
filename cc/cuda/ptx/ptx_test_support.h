// Runs a few lines of PTX.

#ifndef TF_HSM_CC_CUDA_PTX_PTX_TEST_SUPPORT_H_
#define TF_HSM_CC_CUDA_PTX_PTX_TEST_SUPPORT_H_

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/testing/test_support.h"
#include "cc/cuda/ptx/assembler.h"
#include "cc/cuda/ptx/launch.h"
#include "cc/cuda/ptx/module.h"

namespace tf_hsm {
namespace ptx {

using Found = std::map<std::string, int64_t>;

// A kernel with the parameters p0, p1, ... of 64 bits, and registers of every
// type: %p, %rs, %r, %rd, %f, %fd. Its body begins at line 12 of the module.
inline std::string ModuleOf(const std::string& body, size_t parameters) {
  std::string text =
      ".version 9.0\n.target sm_90\n.address_size 64\n"
      ".extern .shared .align 16 .b8 dynamic[];\n.visible .entry test(\n";
  for (size_t i = 0; i < parameters; ++i) {
    text +=
        std::string(i > 0 ? ", " : "") + ".param .u64 p" + std::to_string(i);
  }
  text +=
      ")\n{\n.reg .pred %p<99>; .reg .b16 %rs<99>; .reg .b32 %r<99>;\n"
      ".reg .b64 %rd<99>;\n.reg .f32 %f<99>; .reg .f64 %fd<99>;\n"
      "ld.param.u64 %rd0, [p0]; mov.u32 %r0, %tid.x;\n";
  return text + body + "\nret;\n}\n";
}

// The device of a test, and arrays in its memory.
class TestDevice {
 public:
  explicit TestDevice(uint64_t seed = 1) { device_.rng.seed(seed); }

  template <typename T>
  uint64_t Upload(const std::vector<T>& values) {
    const uint64_t address = device_.memory.Allocate(values.size() * sizeof(T));
    std::memcpy(reinterpret_cast<void*>(address), values.data(),
                values.size() * sizeof(T));
    return address;
  }
  template <typename T>
  static std::vector<T> Download(uint64_t address, size_t count) {
    std::vector<T> values(count);
    std::memcpy(values.data(), reinterpret_cast<const void*>(address),
                count * sizeof(T));
    return values;
  }

  // Returns what was found, or why the body is not supported.
  Found Run(const std::string& body, const Grid& grid,
            const std::vector<uint64_t>& parameters) {
    try {
      const Module module = Parse(ModuleOf(body, parameters.size()));
      const std::map<std::string, uint64_t> globals;
      Kernel kernel =
          Assembler(module, module.entries.at("test"), globals).Run();
      std::vector<char> bytes(parameters.size() * 8);
      std::memcpy(bytes.data(), parameters.data(), bytes.size());
      Launch(&kernel, grid, bytes, &device_);
    } catch (const Unsupported& unsupported) {
      return {{std::string("not supported: ") + unsupported.what(), 1}};
    }
    return device_.findings.Take();
  }

 private:
  Device device_;
};

// Expects exactly one finding, which has all of these words.
inline void ExpectFound(const Found& found, const std::string& what,
                        const std::vector<std::string>& words) {
  bool good = found.size() == 1;
  for (const std::string& word : words) {
    good = good && found.begin()->first.find(word) != std::string::npos;
  }
  Expect(good, what);
  if (good) return;
  for (const auto& [text, count] : found) std::printf("  %s\n", text.c_str());
}

inline void ExpectClean(const Found& found, const std::string& what) {
  Expect(found.empty(), what);
  for (const auto& [text, count] : found) std::printf("  %s\n", text.c_str());
}

}  // namespace ptx
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_PTX_PTX_TEST_SUPPORT_H_
