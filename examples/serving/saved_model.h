// A SavedModel that answers requests, through TensorFlow's C API.

#ifndef TF_HSM_EXAMPLES_SERVING_SAVED_MODEL_H_
#define TF_HSM_EXAMPLES_SERVING_SAVED_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensorflow/c/c_api.h"

namespace tf_hsm {

template <typename T, void (*function)(T*)>
struct Deleter {
  void operator()(T* object) const { function(object); }
};

using TensorPtr =
    std::unique_ptr<TF_Tensor, Deleter<TF_Tensor, TF_DeleteTensor>>;

// An input or an output of a signature.
struct Port {
  std::string name;
  TF_Output place;
  TF_DataType dtype;
  std::vector<int64_t> shape;  // -1 where unknown
};

// One signature of a SavedModel. Whatever fails ends the process with a
// sentence.
class SavedModel {
 public:
  // Loads the op library, without which the SavedModel's ops are unknown, and
  // the SavedModel.
  SavedModel(const std::string& library, const std::string& folder,
             const std::string& signature);
  ~SavedModel();
  SavedModel(const SavedModel&) = delete;
  SavedModel& operator=(const SavedModel&) = delete;

  // In the order of their names.
  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }

  // Takes a tensor per input to one per output. May be called by any number of
  // threads at once.
  std::vector<TensorPtr> Run(const std::vector<TensorPtr>& inputs) const;

 private:
  std::unique_ptr<TF_Graph, Deleter<TF_Graph, TF_DeleteGraph>> graph_;
  TF_Session* session_;
  std::vector<Port> inputs_;
  std::vector<Port> outputs_;
};

}  // namespace tf_hsm

#endif  // TF_HSM_EXAMPLES_SERVING_SAVED_MODEL_H_
