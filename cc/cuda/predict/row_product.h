// dx = dz W over all rows of the weights.

#ifndef TF_HSM_CC_CUDA_PREDICT_ROW_PRODUCT_H_
#define TF_HSM_CC_CUDA_PREDICT_ROW_PRODUCT_H_

#include <cstdint>

#include "cc/cuda/api/gpu.h"
#include "cc/cuda/device/launcher.h"

namespace tf_hsm::gpu {

// Into how many pieces the rows are cut, so that all processors have work.
template <typename T>
int64_t PiecesOf(const Batch<T>& batch, const DeviceLimits& device);

// dz [size, weight rows]; dx [size, width]. With more than one piece, `parts`
// is memory for [pieces, size, width].
template <typename T>
void MultiplyByRows(const Launcher& launcher, const Batch<T>& batch,
                    const Accumulator<T>* dz, int64_t pieces,
                    Accumulator<T>* parts, Accumulator<T>* dx);

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_PREDICT_ROW_PRODUCT_H_
