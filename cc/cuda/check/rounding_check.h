// Checks stochastic rounding of bfloat16 weights.

#ifndef TF_HSM_CC_CUDA_CHECK_ROUNDING_CHECK_H_
#define TF_HSM_CC_CUDA_CHECK_ROUNDING_CHECK_H_

#include <cmath>
#include <string>
#include <vector>

#include "cc/core/update/random_bits.h"
#include "cc/cuda/check/loss_case.h"
#include "cc/cuda/device/convert.h"

namespace tf_hsm {
namespace gpu {

// A step on equal rows: all logits are equal, so gradients are known exactly,
// and so are all bits where `classes` is a power of two. They are small beside
// the weights, which rounding to nearest would leave where they are. `classes`
// decides which kernel rounds, `width` with which accesses.
inline void CheckRounding(int64_t classes, int64_t width, Precision precision) {
  const int64_t label = 3;
  const OwnedTree owned = FlatTree(classes);
  const DeviceTree tree(owned);
  const bfloat16 one = FromDouble<bfloat16>(1);
  const std::vector<bfloat16> w(classes * width, one), b(classes, one),
      x(width, one);
  const float grad = 1.0f / 64, rate = 0.125f;
  std::vector<std::vector<bfloat16>> results;
  bool good = true;
  for (uint64_t seed : {7, 7, 8}) {
    const DeviceArray<bfloat16> device_w(w), device_b(b), device_x(x);
    const DeviceArray<int64_t> labels(std::vector<int64_t>{label});
    const DeviceArray<float> grads(std::vector<float>{grad}), loss(1);
    Batch<bfloat16> batch;
    batch.tree = tree.view();
    batch.shape = DescribeTree(owned.view());
    batch.weights = device_w.data();
    batch.biases = device_b.data();
    batch.width = width;
    batch.inputs = device_x.data();
    batch.input_type = kElementType<bfloat16>;
    batch.labels = labels.data();
    batch.size = 1;
    batch.precision = precision;
    const DeviceMemory blocks(batch, 0);
    const Memory& memory = blocks.memory;
    const DeviceArray<Hyperparameters> hyper({Hyperparameters{rate}});
    const DeviceArray<uint64_t> device_seed(std::vector<uint64_t>{seed});
    DeviceUpdate<bfloat16> update;
    update.hyper = hyper.data();
    update.weights = device_w.data();
    update.biases = device_b.data();
    update.stochastic = true;
    update.seed = device_seed.data();
    good =
        good &&
        Forward<bfloat16>(batch, memory, {loss.data()}, CheckStream()) == "" &&
        ApplyUpdate(batch, memory, grads.data(), update, CheckStream()) == "";
    results.push_back(device_w.Download());
    for (int64_t row = 0; row < classes; ++row) {
      const double p = 1.0 / classes - (row == label ? 1 : 0);
      const double exact = 1 - rate * grad * p;
      // The numbers of a bfloat16 around it: 2^-8 apart below 1, 2^-7 above.
      const double step = exact < 1 ? 0x1p-8 : 0x1p-7;
      const double low = std::floor(exact / step) * step;
      double mean = 0;
      for (int64_t d = 0; d < width; ++d) {
        const bfloat16 result = results.back()[row * width + d];
        const double value = ToDouble(result);
        good = good && (value == low || value == low + step);
        // Neighbours share 32 bits.
        const uint32_t random = RandomBits(WeightCounter(seed, row) +
                                           static_cast<uint32_t>(d / 2)) >>
                                (d % 2 * 16);
        const uint32_t bits = FloatBits(static_cast<float>(exact));
        good = good && (classes % 2 != 0 ||
                        result.bits == (bits + (random & 0xffff)) >> 16);
        mean += value / width;
      }
      // The deviation of the mean is at most half a step over sqrt(width).
      good = good && std::fabs(mean - exact) < 2.5 * step / std::sqrt(width);
    }
  }
  good = good && SameBits(results[0], results[1]) &&
         !SameBits(results[0], results[2]);
  Line(LineName<bfloat16>("flat K=" + std::to_string(classes), 1, width,
                          precision, "stochastic rounding"),
       good, "");
}

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_CHECK_ROUNDING_CHECK_H_
