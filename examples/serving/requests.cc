#include "examples/serving/requests.h"

#include <algorithm>
#include <cstring>
#include <sstream>
#include <type_traits>

namespace tf_hsm {
namespace {

template <typename T, typename Distribution>
void Fill(Distribution distribution, TF_Tensor* tensor, std::mt19937* random) {
  T* numbers = static_cast<T*>(TF_TensorData(tensor));
  std::generate_n(numbers, TF_TensorElementCount(tensor),
                  [&] { return static_cast<T>(distribution(*random)); });
}

template <typename T>
void Print(const TF_Tensor* tensor, int64_t count, std::ostream* out) {
  const T* numbers = static_cast<const T*>(TF_TensorData(tensor));
  count = std::min(count, TF_TensorElementCount(tensor));
  for (int64_t i = 0; i < count; ++i) *out << ' ' << numbers[i];
}

// Calls `function` with a number of a type; returns whether it knows the type.
template <typename Function>
bool WithNumber(TF_DataType type, const Function& function) {
  switch (type) {
    case TF_INT32:
      function(int32_t{});
      return true;
    case TF_INT64:
      function(int64_t{});
      return true;
    case TF_FLOAT:
      function(float{});
      return true;
    case TF_DOUBLE:
      function(double{});
      return true;
    default:
      return false;
  }
}

}  // namespace

std::vector<TensorPtr> RandomRequest(const std::vector<Port>& inputs,
                                     const RequestSize& size,
                                     std::mt19937* random) {
  std::uniform_int_distribution<int64_t> integers(0, size.limit - 1);
  std::uniform_real_distribution<double> floats(-1, 1);
  std::vector<TensorPtr> request;
  for (const Port& port : inputs) {
    std::vector<int64_t> shape = port.shape;
    int64_t count = 1;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] < 0) shape[i] = i == 0 ? size.batch : size.steps;
      count *= shape[i];
    }
    request.emplace_back(TF_AllocateTensor(
        port.dtype, shape.data(), static_cast<int>(shape.size()),
        count * TF_DataTypeSize(port.dtype)));
    TF_Tensor* tensor = request.back().get();
    const bool known = WithNumber(port.dtype, [&](auto number) {
      using T = decltype(number);
      if constexpr (std::is_integral_v<T>) {
        Fill<T>(integers, tensor, random);
      } else {
        Fill<T>(floats, tensor, random);
      }
    });
    if (!known) return {};
  }
  return request;
}

bool Equal(const std::vector<TensorPtr>& a, const std::vector<TensorPtr>& b) {
  auto equal = [](const TensorPtr& one, const TensorPtr& other) {
    const size_t bytes = TF_TensorByteSize(one.get());
    return bytes == TF_TensorByteSize(other.get()) &&
           std::memcmp(TF_TensorData(one.get()), TF_TensorData(other.get()),
                       bytes) == 0;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal);
}

std::string FirstNumbers(const TF_Tensor* tensor, int64_t count) {
  std::ostringstream out;
  const bool known = WithNumber(TF_TensorType(tensor), [&](auto number) {
    Print<decltype(number)>(tensor, count, &out);
  });
  if (!known) out << " of another type";
  return out.str();
}

}  // namespace tf_hsm
