// The element type of a tensor that is passed as const void*.

#ifndef TF_HSM_CC_CUDA_API_ELEMENT_TYPE_H_
#define TF_HSM_CC_CUDA_API_ELEMENT_TYPE_H_

#include "cc/core/base/types.h"

namespace tf_hsm {
namespace gpu {

#define TF_HSM_ENUMERATOR(T, ...) k_##T,
enum class ElementType { TF_HSM_ELEMENT_TYPES(TF_HSM_ENUMERATOR) };
#undef TF_HSM_ENUMERATOR

// kElementType<float> is ElementType::k_float, and so on.
template <typename T>
inline constexpr ElementType kElementType = ElementType();
#define TF_HSM_ELEMENT_TYPE(T, ...) \
  template <>                       \
  inline constexpr ElementType kElementType<T> = ElementType::k_##T;
TF_HSM_ELEMENT_TYPES(TF_HSM_ELEMENT_TYPE)
#undef TF_HSM_ELEMENT_TYPE

// use(elements), where `elements` is `data` as a pointer to its own type.
template <typename Use>
void WithElements(ElementType type, const void* data, const Use& use) {
#define TF_HSM_USE(T, ...) \
  if (type == kElementType<T>) return use(static_cast<const T*>(data));
  TF_HSM_ELEMENT_TYPES(TF_HSM_USE)
#undef TF_HSM_USE
}

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_API_ELEMENT_TYPE_H_
