// Training steps in place, every rule, on valid trees, against the scalar
// reference.

#include "cc/core/api/train_step_test_support.h"
#include "cc/fuzz/target.h"

namespace tf_hsm {

void Fuzz(Bytes* bytes) {
  WithKernel(bytes, [&](auto zero, Isa isa) {
    const Case c = DrawCase(bytes);
    const UpdateRule rule = DrawRule(bytes);
    CheckTrainStep<decltype(zero)>(
        c, isa, rule, bytes->Coin(),
        IsaName(isa) + NameOf(c) + " " + TraitsOf(rule).name, bytes);
  });
}

}  // namespace tf_hsm
