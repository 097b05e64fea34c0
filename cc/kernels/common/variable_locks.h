// The variables that an op holds while it runs.

#ifndef TF_HSM_CC_KERNELS_COMMON_VARIABLE_LOCKS_H_
#define TF_HSM_CC_KERNELS_COMMON_VARIABLE_LOCKS_H_

#include <string>
#include <vector>

#include "cc/kernels/common/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"

namespace tf_hsm {

absl::Status WithoutValue(const std::string& name);

// Whether a tensor has a value, of this type.
absl::Status CheckType(const std::string& name, const Tensor& tensor,
                       DataType dtype);

// Finds variables, then locks all of them in one order for everybody, so that
// no two ops each wait for the other. Unlocks and forgets them at its end.
class VariableLocks {
 public:
  VariableLocks() = default;
  VariableLocks(const VariableLocks&) = delete;
  VariableLocks& operator=(const VariableLocks&) = delete;
  ~VariableLocks();

  // Finds the variable whose handle is the op's input number `input`.
  absl::Status Find(OpKernelContext* context, int input,
                    const std::string& name, tensorflow::Var** variable);

  // For reading. The buffer of a variable is never referenced: so no writer is
  // made to copy it.
  void LockShared();

  // For writing: no variable may be there twice.
  absl::Status LockExclusive();

  // Gives each variable whose buffer somebody else still refers to a copy of
  // its own, so that it may be written in place. All are of plain numbers.
  absl::Status Unshare(OpKernelContext* context);

 private:
  struct Held {
    tensorflow::core::RefCountPtr<tensorflow::Var> variable;
    std::string name;
  };

  void SortByAddress();

  std::vector<Held> held_;
  size_t num_shared_ = 0;     // locked ones at the begin of held_
  size_t num_exclusive_ = 0;  // locked ones at the begin of held_
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_COMMON_VARIABLE_LOCKS_H_
