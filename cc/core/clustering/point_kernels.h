// The inner loops of the clustering of points, compiled once per ISA.

#ifndef TF_HSM_CC_CORE_CLUSTERING_POINT_KERNELS_H_
#define TF_HSM_CC_CORE_CLUSTERING_POINT_KERNELS_H_

#include <cstdint>

#include "cc/core/base/isa.h"

namespace tf_hsm {

// `rows [count, stride]` are points, whose padding holds zeros; `stride` is a
// multiple of kPadding. So are vectors of `stride` numbers.
struct PointKernels {
  // scores[i] = rows[i] . direction
  void (*project)(const float* rows, int64_t count, int64_t stride,
                  const float* direction, float* scores);
  // sums += (rows[i] . direction) rows[i], over all rows.
  void (*add_projected)(const float* rows, int64_t count, int64_t stride,
                        const float* direction, float* sums);
  // sums += factor rows[p], over the `count` rows at `places`, or the first
  // ones where there are none.
  void (*add_rows)(const float* rows, int64_t count, int64_t stride,
                   const int64_t* places, float factor, float* sums);
  // rows[i] -= vector
  void (*subtract)(float* rows, int64_t count, int64_t stride,
                   const float* vector);
  // Sets integers in the order of the scores, and the ends of their range.
  void (*keys)(const float* scores, int64_t count, int32_t* keys,
               int32_t* least, int32_t* most);
  // Sets marks[i] to 1 where a key is larger than `bound`, else to 0, and
  // returns how many are; does without marks where they are null.
  int64_t (*mark)(const int32_t* keys, int64_t count, int32_t bound,
                  uint8_t* marks);
  // The place of the least of the sums of two lists, the first where some tie.
  // `count` is a multiple of kPadding.
  int64_t (*nearest)(const float* a, const float* b, int64_t count);
};

// The loops of an ISA, which must be supported.
const PointKernels& PointKernelsFor(Isa isa);

// Each in the namespace of its ISA.
#define TF_HSM_DECLARE(enumerator, name)   \
  namespace name {                         \
  extern const PointKernels point_kernels; \
  }
TF_HSM_ISAS(TF_HSM_DECLARE)
#undef TF_HSM_DECLARE

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_CLUSTERING_POINT_KERNELS_H_
