// What programs tell the interpreter and ask it, beside CUDA's functions.

#ifndef TF_HSM_CC_CUDA_PTX_RUNTIME_CONTROL_H_
#define TF_HSM_CC_CUDA_PTX_RUNTIME_CONTROL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace tf_hsm {
namespace ptx {

// Takes the text of a module, and returns the one to run.
using Edit = std::function<std::string(const std::string&)>;

// From now on, kernels come from the edited texts; null: from the texts.
void SetEdit(const Edit& edit);

// Returns what was found since the last call, and in how many launches.
// Otherwise findings fail the program at its exit.
std::map<std::string, int64_t> TakeFindings();

// Counts instructions from here on, from zero.
void StartProfile();

// Returns the instructions that warps have executed, by kernel.
std::map<std::string, int64_t> WarpInstructions();

// Returns a table of the kernels, and one of the lines with most instructions.
std::string ProfileText(bool with_lines);

}  // namespace ptx
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_PTX_RUNTIME_CONTROL_H_
