// How the ops are registered: most of them twice, on tensors and on variables.

#ifndef TF_HSM_CC_OPS_REGISTER_H_
#define TF_HSM_CC_OPS_REGISTER_H_

#include <new>
#include <string>

#include "absl/status/status.h"
#include "cc/core/base/types.h"
#include "cc/core/update/rules.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tf_hsm {

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
  using Shape = absl::Status (*)(tensorflow::shape_inference::InferenceContext*,
                                 bool is_handle);

  OpRegistration(const std::string& name, On on, void (*define)(OpDefinition*),
                 Shape shape, const char* doc) {
    for (const bool is_handle : {false, true}) {
      if (!is_handle && on == On::kVariables) continue;
      OpDefinition op((is_handle ? "Resource" + name : name).c_str());
      op.Input(is_handle ? "weights: resource" : "weights: T");
      define(&op);
      if (is_handle) op.SetIsStateful();
      op.SetShapeFn([=](tensorflow::shape_inference::InferenceContext* c) {
        try {
          return shape(c, is_handle);
        } catch (const std::bad_alloc&) {
          return absl::ResourceExhaustedError("no memory for an op's shapes");
        }
      });
      op.Doc(doc)();
    }
  }
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_OPS_REGISTER_H_
