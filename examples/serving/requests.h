// Requests at random, and whether two answers are the same.

#ifndef TF_HSM_EXAMPLES_SERVING_REQUESTS_H_
#define TF_HSM_EXAMPLES_SERVING_REQUESTS_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "examples/serving/saved_model.h"

namespace tf_hsm {

// What a request looks like where a signature leaves it open.
struct RequestSize {
  int64_t batch = 1;    // the first dimension
  int64_t steps = 16;   // any other one
  int64_t limit = 100;  // integers are in [0, limit)
};

// A tensor for each input of a signature: integers as above, or floats in
// [-1, 1). Empty where an input has another type.
std::vector<TensorPtr> RandomRequest(const std::vector<Port>& inputs,
                                     const RequestSize& size,
                                     std::mt19937* random);

// Whether the tensors are the same to the bit.
bool Equal(const std::vector<TensorPtr>& a, const std::vector<TensorPtr>& b);

// The first few numbers of a tensor, as text.
std::string FirstNumbers(const TF_Tensor* tensor, int64_t count);

}  // namespace tf_hsm

#endif  // TF_HSM_EXAMPLES_SERVING_REQUESTS_H_
