// How long requests took.

#ifndef TF_HSM_EXAMPLES_SERVING_LATENCIES_H_
#define TF_HSM_EXAMPLES_SERVING_LATENCIES_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace tf_hsm {

// A histogram of durations from 1 us to 400 s in steps of 1 %. It does not
// grow, so that the memory of the process shows the server's.
class Latencies {
 public:
  void Add(double seconds) {
    const double step = std::log(seconds / kLeast) / std::log(kStep);
    ++counts_[std::clamp<int>(static_cast<int>(step), 0, kSteps - 1)];
    ++total_;
  }

  void Add(const Latencies& other) {
    for (int i = 0; i < kSteps; ++i) counts_[i] += other.counts_[i];
    total_ += other.total_;
  }

  int64_t total() const { return total_; }

  // The seconds that a share `q` of the requests did not exceed.
  double Quantile(double q) const {
    int64_t below = 0;
    int i = 0;
    while (i < kSteps - 1 && (below += counts_[i]) < q * total_) ++i;
    return kLeast * std::pow(kStep, i + 1);
  }

 private:
  static constexpr double kLeast = 1e-6;
  static constexpr double kStep = 1.01;
  static constexpr int kSteps = 2000;

  std::array<int64_t, kSteps> counts_ = {};
  int64_t total_ = 0;
};

}  // namespace tf_hsm

#endif  // TF_HSM_EXAMPLES_SERVING_LATENCIES_H_
