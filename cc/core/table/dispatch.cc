#include "cc/core/table/kernel_table.h"

namespace tf_hsm {

template <typename T>
const KernelTable<T>& KernelTableFor(Isa isa) {
#define TF_HSM_CASE(enumerator, name) \
  case Isa::enumerator:               \
    return name::Table<T>();
  switch (isa) { TF_HSM_ISAS(TF_HSM_CASE) }
#undef TF_HSM_CASE
  __builtin_unreachable();
}

#define TF_HSM_INSTANTIATE(T, ...) TF_HSM_MAKE(KernelTableFor, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm
