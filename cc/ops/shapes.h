// What the shape functions of all ops begin with.

#ifndef TF_HSM_CC_OPS_SHAPES_H_
#define TF_HSM_CC_OPS_SHAPES_H_

#include <vector>

#include "tensorflow/core/framework/shape_inference.h"

namespace tf_hsm {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// The shapes of the inputs that an op has read so far.
struct Signature {
  ShapeHandle batch;            // [...], one example each
  ShapeHandle inputs;           // [..., width]
  DimensionHandle rows;         // of the tree
  DimensionHandle weight_rows;  // of a pinned tree half as many
  DimensionHandle width;
  DimensionHandle groups;
  DimensionHandle roots;
  DimensionHandle classes;
  bool pinned = false;
  int next = 0;  // the first input that is not read yet
};

// The shape of a parameter given as a tensor or as a resource handle, whose
// shape may be missing.
inline ShapeHandle ParameterShape(InferenceContext* c, int input,
                                  bool is_handle) {
  if (!is_handle) return c->input(input);
  const auto* handle = c->input_handle_shapes_and_types(input);
  if (handle == nullptr || handle->empty()) return c->UnknownShape();
  return (*handle)[0].shape;
}

// Reads the op's inputs `weights` and `biases`: sets rows and width.
inline absl::Status ReadParameters(InferenceContext* c, bool is_handle,
                                   Signature* s) {
  std::vector<tensorflow::DataType> bias_types;
  TF_RETURN_IF_ERROR(c->GetAttr("BiasTypes", &bias_types));
  ShapeHandle weights;
  TF_RETURN_IF_ERROR(c->WithRank(ParameterShape(c, 0, is_handle), 2, &weights));
  s->rows = c->Dim(weights, 0);
  s->width = c->Dim(weights, 1);
  if (bias_types.size() > 1) {
    return absl::InvalidArgumentError("biases: at most one");
  }
  if (bias_types.size() == 1) {
    const bool is_variable = bias_types[0] == tensorflow::DT_RESOURCE;
    if (is_variable && !is_handle) {
      return absl::InvalidArgumentError(
          "biases: a variable's handle needs weights that are one too");
    }
    ShapeHandle biases;
    TF_RETURN_IF_ERROR(
        c->WithRank(ParameterShape(c, 1, is_variable), 1, &biases));
    TF_RETURN_IF_ERROR(c->Merge(s->rows, c->Dim(biases, 0), &s->rows));
  }
  s->weight_rows = s->rows;
  s->next = 1 + static_cast<int>(bias_types.size());
  return absl::OkStatus();
}

// Reads the attribute `pinned` after the parameters.
inline absl::Status ReadPinned(InferenceContext* c, Signature* s) {
  TF_RETURN_IF_ERROR(c->GetAttr("pinned", &s->pinned));
  return s->pinned ? c->Multiply(s->weight_rows, 2, &s->rows)
                   : absl::OkStatus();
}

// Checks that a pinned tree's weights have a row for each of the groups.
inline absl::Status MergeGroups(InferenceContext* c, DimensionHandle groups,
                                Signature* s) {
  return s->pinned ? c->Merge(s->weight_rows, groups, &s->weight_rows)
                   : absl::OkStatus();
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_OPS_SHAPES_H_
