// What the shape functions of all ops begin with.

#ifndef TF_HSM_CC_OPS_SHAPES_H_
#define TF_HSM_CC_OPS_SHAPES_H_

#include <vector>

#include "tensorflow/core/framework/shape_inference.h"

namespace tf_hsm {

// The op's inputs `weights` and `biases`.
struct Parameters {
  tensorflow::shape_inference::DimensionHandle rows;
  tensorflow::shape_inference::DimensionHandle width;
  int next = 0;  // the first input after these
};

// The shape of a parameter given as a tensor or as a resource handle, whose
// shape may be missing.
inline tensorflow::shape_inference::ShapeHandle ParameterShape(
    tensorflow::shape_inference::InferenceContext* c, int input,
    bool is_handle) {
  if (!is_handle) return c->input(input);
  const auto* handle = c->input_handle_shapes_and_types(input);
  if (handle == nullptr || handle->empty()) return c->UnknownShape();
  return (*handle)[0].shape;
}

inline absl::Status ReadParameters(
    tensorflow::shape_inference::InferenceContext* c, bool is_handle,
    Parameters* parameters) {
  using tensorflow::DataType;
  using tensorflow::DT_RESOURCE;
  using tensorflow::shape_inference::ShapeHandle;
  std::vector<DataType> bias_types;
  TF_RETURN_IF_ERROR(c->GetAttr("BiasTypes", &bias_types));
  ShapeHandle weights;
  TF_RETURN_IF_ERROR(c->WithRank(ParameterShape(c, 0, is_handle), 2, &weights));
  parameters->rows = c->Dim(weights, 0);
  parameters->width = c->Dim(weights, 1);
  if (bias_types.size() > 1) {
    return absl::InvalidArgumentError("biases: at most one");
  }
  if (bias_types.size() == 1) {
    if (bias_types[0] == DT_RESOURCE && !is_handle) {
      return absl::InvalidArgumentError(
          "biases: a variable's handle needs weights that are one too");
    }
    ShapeHandle biases;
    TF_RETURN_IF_ERROR(c->WithRank(
        ParameterShape(c, 1, bias_types[0] == DT_RESOURCE), 1, &biases));
    TF_RETURN_IF_ERROR(
        c->Merge(parameters->rows, c->Dim(biases, 0), &parameters->rows));
  }
  parameters->next = 1 + static_cast<int>(bias_types.size());
  return absl::OkStatus();
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_OPS_SHAPES_H_
