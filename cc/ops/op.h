// What the files of ops share: how ops are registered, most of them twice, on
// tensors and on variables; and what the shape functions begin with.

#ifndef TF_HSM_CC_OPS_OP_H_
#define TF_HSM_CC_OPS_OP_H_

#include <new>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/core/base/types.h"
#include "cc/core/update/rules.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tf_hsm {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;
using OpDefinition = tensorflow::register_op::OpDefBuilderWrapper;

// The attribute `name`, one of the element types.
inline std::string ElementTypeAttr(const std::string& name) {
#define TF_HSM_NAME(core, tensorflow_type, name) name ", "
  return name + ": {" TF_HSM_ELEMENT_TYPES(TF_HSM_NAME) "}";
#undef TF_HSM_NAME
}

// The attribute `rule`, one of the update rules.
inline std::string RuleAttr() {
#define TF_HSM_NAME(rule, name, num_slots, per_row) "'" name "', "
  return "rule: {" TF_HSM_UPDATE_RULES(TF_HSM_NAME) "}";
#undef TF_HSM_NAME
}

// A shape function for an op that survives a lack of memory.
template <typename Shape>
auto ShapeFunction(const Shape& shape) {
  return [shape](InferenceContext* c) -> absl::Status {
    try {
      return shape(c);
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError("no memory for an op's shapes");
    }
  };
}

// Attributes of the ops on a softmax tree.
constexpr char kPinnedAttr[] = "pinned: bool = false";
constexpr char kSoftCapAttr[] = "logit_soft_cap: float = 0.0";

// Whether the op's first input, `weights`, is a tensor or a variable.
enum class On { kVariables, kTensorsAndVariables };

// Registers the op "Resource" + `name` on variables, which is stateful, and the
// op `name` on tensors. `define` adds all that follows the input `weights`.
// `shape` is told whether weights are a variable's handle.
class OpRegistration {
 public:
  using Shape = absl::Status (*)(InferenceContext*, bool is_handle);

  OpRegistration(const std::string& name, On on, void (*define)(OpDefinition*),
                 Shape shape, const char* doc) {
    for (const bool is_handle : {false, true}) {
      if (!is_handle && on == On::kVariables) continue;
      OpDefinition op((is_handle ? "Resource" + name : name).c_str());
      op.Input(is_handle ? "weights: resource" : "weights: T");
      define(&op);
      if (is_handle) op.SetIsStateful();
      op.SetShapeFn(ShapeFunction(
          [=](InferenceContext* c) { return shape(c, is_handle); }));
      op.Doc(doc)();
    }
  }
};

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

#endif  // TF_HSM_CC_OPS_OP_H_
