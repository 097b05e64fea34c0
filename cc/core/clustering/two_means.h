// Two-means with parts of given sizes.
//
// To give m of n points to a mean a and the rest to a mean b, with the least
// sum of squared distances, one takes the m points that lie farthest along
// a - b. So a step of Lloyd's algorithm is one projection and one selection. It
// is exactly balanced, and never makes the sum larger. Label trees are learned
// in this way in Prabhu et al., Parabel, WWW 2018.

#ifndef TF_HSM_CC_CORE_CLUSTERING_TWO_MEANS_H_
#define TF_HSM_CC_CORE_CLUSTERING_TWO_MEANS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "cc/core/base/isa.h"
#include "cc/core/base/philox.h"
#include "cc/core/clustering/point_kernels.h"

namespace tf_hsm {

// The points to cluster, and how.
struct Points {
  const float* rows = nullptr;  // [count, width], finite
  int64_t count = 0;
  int64_t width = 0;
  uint64_t seed = 0;  // of where searches for a principal direction begin
  int64_t max_iterations = 1;  // steps of Lloyd's algorithm in a split
  Isa isa = Isa::kBaseline;
};

// Splits sets of points, which are numbers of rows. An object has the scratch
// of one thread.
class TwoMeans {
 public:
  explicit TwoMeans(const Points& points);

  // Divides the points of two sets among them anew, and keeps their order.
  // Returns how many points went from left to right, and as many back.
  //
  // Where there are `means`, of the left and of the right set, they are brought
  // up to date, and the sum of squared distances to them does not become
  // larger. Else it does not matter how good the two sets were. `draw` is the
  // number of a random beginning: with another one, the same points may find a
  // better split.
  int64_t Split(int64_t* left, int64_t num_left, int64_t* right,
                int64_t num_right, uint32_t draw, float* const (&means)[2]);

  // Sets `mean [stride()]`, which ends in zeros.
  void Mean(const int64_t* members, int64_t count, float* mean);

  // The width, padded.
  int64_t stride() const { return stride_; }

 private:
  // Two parts of rows_, and the direction from the right mean to the left one.
  struct Parts {
    std::vector<uint8_t> is_left;
    std::vector<float> direction;
  };

  PhiloxBlock Random(uint32_t draw, uint32_t use, uint32_t number) const;
  void Gather(const int64_t* members, int64_t count);
  void SumRows(int64_t count, float* sum);
  int64_t AddMoved(const std::vector<uint8_t>& from,
                   const std::vector<uint8_t>& to, float factor,
                   std::vector<float>* direction);
  void Learn(int64_t num_left, uint32_t draw, bool improve);
  void FindPrincipal(uint32_t draw);
  void Iterate(int64_t num_left, bool has_parts, Parts* parts);
  void Select(int64_t num_left, std::vector<uint8_t>* is_left);

  const Points& points_;
  const PointKernels& kernels_;
  const int64_t stride_;
  int64_t capacity_ = 0;  // of rows_
  std::unique_ptr<float[]> rows_;
  int64_t count_ = 0;  // of the rows that are learned from, or selected
  std::vector<float> mean_, new_means_, principal_, block_, scores_;
  std::vector<int32_t> keys_;
  std::vector<int64_t> members_, places_;
  std::vector<uint8_t> before_;
  Parts parts_, others_;
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_CLUSTERING_TWO_MEANS_H_
