// The op kernels that make trees from training data.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "cc/core/pairs/count_keys.h"
#include "cc/core/pairs/sparse_products.h"
#include "cc/core/tree/tree_walk.h"
#include "cc/kernels/common/arguments.h"
#include "cc/kernels/common/element_types.h"
#include "cc/kernels/common/register.h"
#include "cc/kernels/cpu/parallel.h"

namespace tf_hsm {
namespace {

// The largest width of `dense`: a wider product takes memory and time without
// data.
constexpr int64_t kMaxWidth = 1 << 16;

struct CountKeysOp : OpAttributes {
  absl::Status Run(OpKernelContext* context) const {
    const int64_t* keys;
    KeyCounts known;
    TF_RETURN_IF_ERROR(ReadVector(context, "keys", -1, "any number", &keys));
    TF_RETURN_IF_ERROR(
        ReadVector(context, "known", -1, "any number", &known.keys));
    known.size = context->input(1).NumElements();
    TF_RETURN_IF_ERROR(ReadVector(context, "known_counts", known.size,
                                  "one per known key", &known.counts));
    const int64_t* end = known.keys + known.size;
    const int64_t* bad =
        std::adjacent_find(known.keys, end, std::greater_equal<int64_t>());
    if (bad != end) {
      return InvalidArgument("known must ascend, but ", bad[1], " follows ",
                             bad[0], " at position ", bad + 1 - known.keys);
    }
    const Parallel parallel = PoolParallel(context);
    const KeyCounter counter(keys, context->input(0).NumElements(), known,
                             parallel);
    const TensorShape shape({counter.num_distinct()});
    Tensor *distinct, *counts;
    TF_RETURN_IF_ERROR(context->allocate_output(0, shape, &distinct));
    TF_RETURN_IF_ERROR(context->allocate_output(1, shape, &counts));
    counter.Write(Data<int64_t>(*distinct), Data<int64_t>(*counts), parallel);
    return absl::OkStatus();
  }
};

struct SparseProductOp : OpAttributes {
  bool squared = false;

  absl::Status Read(OpKernelConstruction* context) {
    return context->GetAttr("squared", &squared);
  }

  absl::Status Run(OpKernelContext* context) const {
    const Tensor &splits = context->input(0), &indices = context->input(1),
                 &values = context->input(2), &dense = context->input(3);
    if (splits.dims() != 1 || splits.NumElements() == 0) {
      return InvalidArgument("splits must have the shape [rows + 1], but have ",
                             splits.shape().DebugString());
    }
    if (indices.dims() != 1) {
      return InvalidArgument("indices must have the shape [entries], but have ",
                             indices.shape().DebugString());
    }
    TF_RETURN_IF_ERROR(CheckShape("values", values, indices.shape()));
    if (dense.dims() != 2 || dense.dim_size(1) > kMaxWidth) {
      return InvalidArgument(
          "dense must have the shape [columns, width], width "
          "at most ",
          kMaxWidth, ", but has ", dense.shape().DebugString());
    }
    std::vector<int64_t> row_splits;
    TF_RETURN_IF_ERROR(ReadSplits(splits, indices.NumElements(), &row_splits));
    const SparseMatrix matrix = {splits.NumElements() - 1, dense.dim_size(0),
                                 row_splits.data(), Data<int32_t>(indices),
                                 Data<float>(values)};
    for (int64_t i = 0; i < indices.NumElements(); ++i) {
      const int64_t column = matrix.columns[i];
      if (column >= 0 && column < matrix.num_columns) continue;
      return InvalidArgument(
          OutOfRange("indices", i, column, 0, matrix.num_columns));
    }
    const int64_t width = dense.dim_size(1);
    Tensor* product;
    TF_RETURN_IF_ERROR(context->allocate_output(
        0, {squared ? matrix.num_columns : matrix.num_rows, width}, &product));
    const auto multiply = squared ? SquareProduct : SparseProduct;
    if (product->NumElements() > 0) {
      multiply(matrix, Data<float>(dense), width, Data<float>(*product),
               PoolParallel(context));
    }
    return absl::OkStatus();
  }
};

const bool registered[] = {
    RegisterOnCpu<CountKeysOp>("TfHsmCountKeys"),
    RegisterOnCpu<SparseProductOp>("TfHsmSparseProduct")};

}  // namespace
}  // namespace tf_hsm
