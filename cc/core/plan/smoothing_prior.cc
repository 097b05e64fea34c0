#include "cc/core/plan/smoothing_prior.h"

#include <cmath>

namespace tf_hsm {
namespace {

// By which a sum may miss 1: far more than the rounding of the numbers, and far
// less than what changes a model.
constexpr double kTolerance = 1e-4;

}  // namespace

std::string CheckSmoothingPrior(const Plan& plan, const float* prior) {
  for (const Node& node : plan.nodes) {
    double sum = 0;
    const int64_t end = node.first_row + node.fanout;
    for (int64_t row = node.first_row; row < end; ++row) {
      // Written so that a NaN is wrong too.
      if (!(prior[row] >= 0 && prior[row] <= 1)) {
        return "smoothing_prior[" + std::to_string(row) +
               "] = " + std::to_string(prior[row]) + " is outside [0, 1]";
      }
      sum += prior[row];
    }
    if (!(std::fabs(sum - 1) <= kTolerance)) {
      return "smoothing_prior must sum to 1 in each group, but sums to " +
             std::to_string(sum) + " in group " + std::to_string(node.group) +
             ", the rows " + std::to_string(node.first_row) + " to " +
             std::to_string(end - 1);
    }
  }
  return "";
}

}  // namespace tf_hsm
