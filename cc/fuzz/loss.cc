// Loss and gradients of valid trees, against the scalar reference.

#include "cc/core/api/loss_test_support.h"
#include "cc/fuzz/target.h"

namespace tf_hsm {

void Fuzz(Bytes* bytes) {
  WithKernel(bytes, [&](auto zero, Isa isa) {
    using T = decltype(zero);
    const Case c = DrawCase(bytes);
    const bool with_bias = bytes->Coin(), of_float = bytes->Coin();
    const std::string name = IsaName(isa) + NameOf(c);
    if constexpr (std::is_same<T, bfloat16>::value) {
      if (of_float) {
        return CheckLoss<T, float>(c, isa, with_bias, name, bytes);
      }
    }
    CheckLoss<T>(c, isa, with_bias, name, bytes);
  });
}

}  // namespace tf_hsm
