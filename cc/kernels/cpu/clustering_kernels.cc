// The ops on clusters of points, on the CPU.

#include <algorithm>
#include <cstring>
#include <string>

#include "cc/core/base/isa.h"
#include "cc/core/clustering/exchange.h"
#include "cc/core/clustering/two_means.h"
#include "cc/core/tree/tree_walk.h"
#include "cc/kernels/common/arguments.h"
#include "cc/kernels/common/element_types.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/common/parallel.h"
#include "cc/kernels/common/register.h"

namespace tf_hsm {
namespace {

// So many families are shared among threads; fewer, one after the other, have
// their pairs shared.
constexpr int64_t kManyFamilies = 32;

// Passes an input on as an output, which it may overwrite.
absl::Status Renew(OpKernelContext* context, int input, int output,
                   Tensor** renewed) {
  const Tensor& old = context->input(input);
  TF_RETURN_IF_ERROR(context->forward_input_or_allocate_output(
      {input}, output, old.shape(), renewed));
  if ((*renewed)->data() != old.data()) {
    std::memcpy((*renewed)->data(), old.data(), old.TotalBytes());
  }
  return absl::OkStatus();
}

// What both ops have: the inputs `points` and `order`, and how to split.
struct ClusterAttributes : OpAttributes {
  int64_t seed, max_iterations;

  absl::Status Read(OpKernelConstruction* context) {
    TF_RETURN_IF_ERROR(context->GetAttr("seed", &seed));
    return context->GetAttr("max_iterations", &max_iterations);
  }

  absl::Status ReadPoints(OpKernelContext* context, Points* points) const {
    const Tensor* rows;
    TF_RETURN_IF_ERROR(context->input("points", &rows));
    if (rows->dims() != 2 || rows->dim_size(1) < 1) {
      return InvalidArgument(
          "points must have the shape [points, width], with a width of at "
          "least 1, but have ",
          rows->shape().DebugString());
    }
    points->rows = Data<float>(*rows);
    points->count = rows->dim_size(0);
    points->width = rows->dim_size(1);
    points->max_iterations = max_iterations;
    TF_RETURN_IF_ERROR(CheckWidth("points", points->width));
    points->seed = static_cast<uint64_t>(seed);
    const int64_t* order;
    TF_RETURN_IF_ERROR(
        ReadVector(context, "order", points->count, "as points", &order));
    for (int64_t i = 0; i < points->count; ++i) {
      if (order[i] < 0 || order[i] >= points->count) {
        return InvalidArgument(
            OutOfRange("order", i, order[i], 0, points->count));
      }
    }
    std::string error;
    points->isa = ActiveIsa(&error);
    return StatusOf(error);
  }
};

struct SplitPointsOp : ClusterAttributes {
  absl::Status Run(OpKernelContext* context) const {
    Points points;
    TF_RETURN_IF_ERROR(ReadPoints(context, &points));
    const Tensor* tensor;
    TF_RETURN_IF_ERROR(context->input("runs", &tensor));
    if (tensor->dims() != 2 || tensor->dim_size(1) != 3) {
      return InvalidArgument("runs must have the shape [runs, 3], but have ",
                             tensor->shape().DebugString());
    }
    const int64_t count = tensor->dim_size(0);
    const int64_t* runs = Data<int64_t>(*tensor);
    int64_t least = 0;
    for (int64_t i = 0; i < 3 * count; ++i) {
      if (runs[i] < least || runs[i] > points.count) {
        return InvalidArgument(
            OutOfRange("runs", i, runs[i], least, points.count + 1),
            ", since runs ascend, and no part of one is empty");
      }
      least = runs[i] + (i % 3 < 2);
    }
    Tensor* order;
    TF_RETURN_IF_ERROR(Renew(context, 1, 0, &order));
    Halve(points, runs, count, PoolParallel(context), Data<int64_t>(order));
    return absl::OkStatus();
  }
};

struct ExchangePointsOp : ClusterAttributes {
  int64_t rounds;

  absl::Status Read(OpKernelConstruction* context) {
    TF_RETURN_IF_ERROR(context->GetAttr("rounds", &rounds));
    return ClusterAttributes::Read(context);
  }

  absl::Status Run(OpKernelContext* context) const {
    Points points;
    TF_RETURN_IF_ERROR(ReadPoints(context, &points));
    const Tensor *starts, *sizes, *splits;
    TF_RETURN_IF_ERROR(context->input("starts", &starts));
    TF_RETURN_IF_ERROR(context->input("sizes", &sizes));
    TF_RETURN_IF_ERROR(context->input("splits", &splits));
    if (starts->dims() != 2) {
      return InvalidArgument("starts must have the shape [families, clusters],",
                             " but have ", starts->shape().DebugString());
    }
    const int64_t families = starts->dim_size(0), count = starts->dim_size(1);
    TF_RETURN_IF_ERROR(CheckShape("sizes", *sizes, starts->shape()));
    if (splits->dims() != 3 || splits->dim_size(0) != families ||
        splits->dim_size(1) != count || splits->dim_size(2) != count) {
      return InvalidArgument(
          "splits must have the shape [families, clusters, clusters] of "
          "starts, ",
          starts->shape().DebugString(), ", but have ",
          splits->shape().DebugString());
    }
    const int64_t* start = Data<int64_t>(*starts);
    const int64_t* size = Data<int64_t>(*sizes);
    int64_t least = 0;
    for (int64_t i = 0; i < families * count; ++i) {
      if (start[i] < least || start[i] >= points.count) {
        return InvalidArgument(
            OutOfRange("starts", i, start[i], least, points.count),
            ", since no two clusters share a place");
      }
      if (size[i] < 1 || size[i] > points.count - start[i]) {
        return InvalidArgument(
            OutOfRange("sizes", i, size[i], 1, points.count - start[i] + 1));
      }
      least = start[i] + size[i];
    }
    Tensor *order, *new_splits, *pairs, *moved;
    TF_RETURN_IF_ERROR(Renew(context, 1, 0, &order));
    TF_RETURN_IF_ERROR(Renew(context, 4, 1, &new_splits));
    TF_RETURN_IF_ERROR(
        context->allocate_output(2, TensorShape({families}), &pairs));
    TF_RETURN_IF_ERROR(
        context->allocate_output(3, TensorShape({families}), &moved));
    const auto exchange = [&](int64_t family, const Parallel& parallel) {
      const Siblings siblings = {
          start + family * count, size + family * count, count,
          Data<float>(new_splits) + family * count * count};
      const Exchanged done =
          Exchange(points, siblings, rounds, parallel, Data<int64_t>(order));
      Data<int64_t>(pairs)[family] = done.pairs;
      Data<int64_t>(moved)[family] = done.points;
    };
    const Parallel parallel = PoolParallel(context);
    if (families >= kManyFamilies) {
      parallel(families, [&](int64_t family) { exchange(family, Serial); });
    } else {
      Serial(families, [&](int64_t family) { exchange(family, parallel); });
    }
    return absl::OkStatus();
  }
};

const bool registered[] = {
    RegisterOnCpu<SplitPointsOp>("TfHsmSplitPoints"),
    RegisterOnCpu<ExchangePointsOp>("TfHsmExchangePoints")};

}  // namespace
}  // namespace tf_hsm
