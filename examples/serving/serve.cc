// Loads a SavedModel that tf_hsm.serving exported, and answers one request:
//
//     bazel run //examples/serving:serve -- $PWD/served_model 3 14 15
//
// It needs TensorFlow's C API and no Python. A session answers any number of
// threads at once.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "google/protobuf/map.h"
#include "tensorflow/c/c_api.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"

namespace {

template <typename T, void (*function)(T*)>
struct Deleter {
  void operator()(T* object) const { function(object); }
};

template <typename T, void (*function)(T*)>
using Owned = std::unique_ptr<T, Deleter<T, function>>;

using Infos = google::protobuf::Map<std::string, tensorflow::TensorInfo>;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(EXIT_FAILURE);
}

void Check(const TF_Status* status, const std::string& what) {
  if (TF_GetCode(status) != TF_OK) Fail(what + ": " + TF_Message(status));
}

// Signatures name the tensors of a graph: "operation:index".
TF_Output Find(const Infos& infos, const std::string& name, TF_Graph* graph) {
  const auto info = infos.find(name);
  if (info == infos.end()) Fail("the model has no " + name);
  const std::string& tensor = info->second.name();
  const size_t colon = tensor.rfind(':');
  return {TF_GraphOperationByName(graph, tensor.substr(0, colon).c_str()),
          std::atoi(tensor.c_str() + colon + 1)};
}

std::vector<int32_t> ReadTokens(int argc, char** argv) {
  std::vector<int32_t> ids;
  for (int i = 2; i < argc; ++i) {
    char* end;
    ids.push_back(static_cast<int32_t>(std::strtol(argv[i], &end, 10)));
    if (*end != '\0') return {};
  }
  return ids;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<int32_t> ids = ReadTokens(argc, argv);
  if (ids.empty()) Fail("give the folder of a model, and token ids");
  const std::string folder = argv[1];
  const Owned<TF_Status, TF_DeleteStatus> status(TF_NewStatus());

  // Without its op library a SavedModel's ops are unknown. They stay registered
  // until the process ends.
  const std::string library = folder + "/assets.extra/_tf_hsm_ops.so";
  TF_DeleteLibraryHandle(TF_LoadLibrary(library.c_str(), status.get()));
  Check(status.get(), library);

  const Owned<TF_Graph, TF_DeleteGraph> graph(TF_NewGraph());
  const Owned<TF_SessionOptions, TF_DeleteSessionOptions> options(
      TF_NewSessionOptions());
  const Owned<TF_Buffer, TF_DeleteBuffer> buffer(TF_NewBuffer());
  const char* const tags[] = {"serve"};
  TF_Session* session =
      TF_LoadSessionFromSavedModel(options.get(), nullptr, folder.c_str(), tags,
                                   1, graph.get(), buffer.get(), status.get());
  Check(status.get(), folder);

  tensorflow::MetaGraphDef meta_graph;
  if (!meta_graph.ParseFromArray(buffer->data,
                                 static_cast<int>(buffer->length))) {
    Fail(folder + ": its MetaGraphDef cannot be read");
  }
  const auto& signature = meta_graph.signature_def().at("serving_default");
  const TF_Output input = Find(signature.inputs(), "tokens", graph.get());
  const TF_Output outputs[] = {
      Find(signature.outputs(), "classes", graph.get()),
      Find(signature.outputs(), "log_probs", graph.get())};

  // One text.
  const int64_t shape[] = {1, static_cast<int64_t>(ids.size())};
  const Owned<TF_Tensor, TF_DeleteTensor> tokens(
      TF_AllocateTensor(TF_INT32, shape, 2, ids.size() * sizeof(int32_t)));
  std::copy(ids.begin(), ids.end(),
            static_cast<int32_t*>(TF_TensorData(tokens.get())));
  TF_Tensor* const given = tokens.get();
  TF_Tensor* answers[2] = {};
  TF_SessionRun(session, nullptr, &input, &given, 1, outputs, answers, 2,
                nullptr, 0, nullptr, status.get());
  Check(status.get(), "the request failed");
  const Owned<TF_Tensor, TF_DeleteTensor> classes(answers[0]);
  const Owned<TF_Tensor, TF_DeleteTensor> log_probs(answers[1]);

  // The last answers are those after the last token.
  const int64_t total = TF_TensorElementCount(answers[0]);
  const int64_t k = TF_Dim(answers[0], TF_NumDims(answers[0]) - 1);
  for (int64_t i = total - k; i < total; ++i) {
    std::printf("log p = %.4f  class %lld\n",
                static_cast<float*>(TF_TensorData(answers[1]))[i],
                static_cast<long long>(  // NOLINT
                    static_cast<int64_t*>(TF_TensorData(answers[0]))[i]));
  }
  TF_DeleteSession(session, status.get());
  return EXIT_SUCCESS;
}
