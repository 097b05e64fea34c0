// Parts of the ops' arguments, read and checked: nothing below this layer sees
// a tensor whose shape does not fit the others.

#ifndef TF_HSM_CC_KERNELS_COMMON_ARGUMENTS_H_
#define TF_HSM_CC_KERNELS_COMMON_ARGUMENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/tree/tree_view.h"
#include "cc/kernels/common/op_kernel.h"

namespace tf_hsm {

absl::Status CheckShape(const std::string& name, const Tensor& tensor,
                        const TensorShape& shape);

// Checks that a product of `width` with a few thousand rows does not overflow.
absl::Status CheckWidth(const char* name, int64_t width);

// Finds the op's input `name`, a vector of `size` numbers; of any size if that
// is negative. An error says `why` it must have that size.
absl::Status ReadVector(OpKernelContext* context, const char* name,
                        int64_t size, const std::string& why,
                        const int64_t** data);

// Finds the number of the only element of the op's list input `name`; -1 where
// it is empty.
absl::Status FindInput(OpKernelContext* context, const char* name, int* input);

// Finds its tensor; null where it is empty.
absl::Status FindOptional(OpKernelContext* context, const char* name,
                          const Tensor** tensor);

// Likewise, of this type and shape.
absl::Status ReadOptional(OpKernelContext* context, const char* name,
                          DataType dtype, const TensorShape& shape,
                          const Tensor** tensor);

// What the ops on a softmax tree have in common.
struct TreeAttributes : OpAttributes {
  bool pinned = false;       // see tree_view.h
  float logit_soft_cap = 0;  // see Problem

  absl::Status Read(OpKernelConstruction* context);

  // An error unless `tree` may have the soft cap.
  absl::Status CheckSoftCap(const TreeView& tree) const;
};

// An error unless the option of this name, which is not its default, is for
// this tree: one of one group, which is not small (plan.h).
absl::Status CheckIsFlat(const char* name, const TreeView& tree);

// An error unless a number is finite and at least 0.
absl::Status CheckOption(const char* name, float value);

// Reads the arrays of a forest that a walk down needs, the op's inputs
// `group_offsets`, `row_below` and `root_groups`, which is checked. The weights
// have `rows` rows; tree->pinned is known.
absl::Status ReadTreeBelow(OpKernelContext* context, int64_t rows,
                           TreeView* tree);

// Adds those that a walk up needs: `group_parents`, `class_rows`, `row_groups`.
// Where labels are rows, class_rows has them all, and tree->num_classes is
// their number then.
absl::Status ReadTreeAbove(OpKernelContext* context, TreeView* tree);

// Sets the number of roots, of which each takes away a row, and checks it.
absl::Status CountRoots(TreeView* tree);

// Copies integers of either type.
void CopyIntegers(const Tensor& tensor, std::vector<int64_t>* values);

// Copies the values of the op's input `indices`, each in [0, rows).
absl::Status ReadIndices(const Tensor& tensor, int64_t rows,
                         std::vector<int64_t>* indices);

// Copies the values of the op's input `splits`, which ascend from 0 to `count`.
absl::Status ReadSplits(const Tensor& tensor, int64_t count,
                        std::vector<int64_t>* splits);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_COMMON_ARGUMENTS_H_
