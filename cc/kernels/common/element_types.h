// The core's element types as TensorFlow's, and the memory of tensors.

#ifndef TF_HSM_CC_KERNELS_COMMON_ELEMENT_TYPES_H_
#define TF_HSM_CC_KERNELS_COMMON_ELEMENT_TYPES_H_

#include "cc/core/base/types.h"
#include "cc/kernels/common/op_kernel.h"

namespace tf_hsm {

// The value of TensorFlow's DataType for the core's element type T.
template <typename T>
constexpr DataType kDataType = tensorflow::DT_INVALID;
#define TF_HSM_DATA_TYPE(core, type, name)    \
  template <>                                 \
  inline constexpr DataType kDataType<core> = \
      tensorflow::DataTypeToEnum<type>::value;
TF_HSM_ELEMENT_TYPES(TF_HSM_DATA_TYPE)
#undef TF_HSM_DATA_TYPE

// Calls call(X()) for the core's element type X that has the DataType `type`.
template <typename Call>
void ForElementType(DataType type, const Call& call) {
#define TF_HSM_CALL(core, tensorflow_type, name) \
  if (type == kDataType<core>) call(core());
  TF_HSM_ELEMENT_TYPES(TF_HSM_CALL)
#undef TF_HSM_CALL
}

// The numbers of a tensor, of TensorFlow's type or the core's. Not flat(),
// which ends the process on memory that is not aligned.
template <typename S>
S* Data(const Tensor& tensor) {
  return static_cast<S*>(tensor.data());
}

// Null without a tensor.
template <typename S>
S* Data(const Tensor* tensor) {
  return tensor == nullptr ? nullptr : Data<S>(*tensor);
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_COMMON_ELEMENT_TYPES_H_
