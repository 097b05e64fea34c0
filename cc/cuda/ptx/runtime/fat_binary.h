// What nvcc puts into a program for the runtime: modules in a container.

#ifndef TF_HSM_CC_CUDA_PTX_RUNTIME_FAT_BINARY_H_
#define TF_HSM_CC_CUDA_PTX_RUNTIME_FAT_BINARY_H_

#include <string>

namespace tf_hsm {
namespace ptx {

// Returns the text of the PTX that __cudaRegisterFatBinary gets, compiled with
// -gencode=arch=compute_NN,code=compute_NN and --no-compress. Throws
// Unsupported where there is none.
std::string PtxOf(const void* fat_binary);

}  // namespace ptx
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_PTX_RUNTIME_FAT_BINARY_H_
