// What the interpreter finds wrong in a kernel.

#ifndef TF_HSM_CC_CUDA_PTX_FINDINGS_H_
#define TF_HSM_CC_CUDA_PTX_FINDINGS_H_

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "cc/cuda/ptx/module.h"

namespace tf_hsm {
namespace ptx {

// A launch that cannot go on, as after an access out of bounds.
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What was found, by its text, which names the kernel and the line; and how
// often.
class Findings {
 public:
  void Add(const std::string& text) { ++counts_[text]; }

  // Returns what was found since the last call.
  std::map<std::string, int64_t> Take() { return std::exchange(counts_, {}); }

 private:
  std::map<std::string, int64_t> counts_;
};

// A kernel's name without its arguments, as C++ writes it.
std::string Readable(const std::string& name);

// cc/x.cu:3, or nothing where the line is not known.
std::string SourceLine(const Module& module, int file, int line);

// "statement" (line 12 of the PTX, cc/cuda/x.cu:3 from cc/cuda/y.h:4) of kernel
std::string Where(const Module& module, const Entry& entry, int statement);

}  // namespace ptx
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_PTX_FINDINGS_H_
