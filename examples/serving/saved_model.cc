#include "examples/serving/saved_model.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "google/protobuf/map.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"

namespace tf_hsm {
namespace {

using StatusPtr =
    std::unique_ptr<TF_Status, Deleter<TF_Status, TF_DeleteStatus>>;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(EXIT_FAILURE);
}

void Check(const StatusPtr& status, const std::string& what) {
  if (TF_GetCode(status.get()) != TF_OK) {
    Fail(what + ": " + TF_Message(status.get()));
  }
}

// The signatures of a SavedModel name tensors of its graph: "operation:index".
std::vector<Port> ReadPorts(
    const google::protobuf::Map<std::string, tensorflow::TensorInfo>& infos,
    TF_Graph* graph) {
  std::vector<Port> ports;
  for (const auto& [name, info] : infos) {
    const size_t colon = info.name().rfind(':');
    Port port;
    port.name = name;
    port.place.oper =
        TF_GraphOperationByName(graph, info.name().substr(0, colon).c_str());
    port.place.index = std::atoi(info.name().c_str() + colon + 1);
    port.dtype = static_cast<TF_DataType>(info.dtype());
    for (const auto& dim : info.tensor_shape().dim()) {
      port.shape.push_back(dim.size());
    }
    ports.push_back(std::move(port));
  }
  std::sort(ports.begin(), ports.end(),
            [](const Port& a, const Port& b) { return a.name < b.name; });
  return ports;
}

std::vector<TF_Output> Places(const std::vector<Port>& ports) {
  std::vector<TF_Output> places;
  for (const Port& port : ports) places.push_back(port.place);
  return places;
}

}  // namespace

SavedModel::SavedModel(const std::string& library, const std::string& folder,
                       const std::string& signature)
    : graph_(TF_NewGraph()) {
  const StatusPtr status(TF_NewStatus());
  // Its ops stay registered until the process ends.
  TF_DeleteLibraryHandle(TF_LoadLibrary(library.c_str(), status.get()));
  Check(status, library);

  const std::unique_ptr<TF_SessionOptions,
                        Deleter<TF_SessionOptions, TF_DeleteSessionOptions>>
      options(TF_NewSessionOptions());
  const std::unique_ptr<TF_Buffer, Deleter<TF_Buffer, TF_DeleteBuffer>> buffer(
      TF_NewBuffer());
  const char* const tags[] = {"serve"};
  session_ =
      TF_LoadSessionFromSavedModel(options.get(), nullptr, folder.c_str(), tags,
                                   1, graph_.get(), buffer.get(), status.get());
  Check(status, folder);

  tensorflow::MetaGraphDef meta_graph;
  if (!meta_graph.ParseFromArray(buffer->data,
                                 static_cast<int>(buffer->length))) {
    Fail(folder + ": its MetaGraphDef cannot be read");
  }
  const auto found = meta_graph.signature_def().find(signature);
  if (found == meta_graph.signature_def().end()) {
    Fail(folder + ": there is no signature " + signature);
  }
  inputs_ = ReadPorts(found->second.inputs(), graph_.get());
  outputs_ = ReadPorts(found->second.outputs(), graph_.get());
}

SavedModel::~SavedModel() {
  const StatusPtr status(TF_NewStatus());
  TF_DeleteSession(session_, status.get());
}

std::vector<TensorPtr> SavedModel::Run(
    const std::vector<TensorPtr>& inputs) const {
  const std::vector<TF_Output> sources = Places(inputs_);
  const std::vector<TF_Output> targets = Places(outputs_);
  std::vector<TF_Tensor*> given;
  for (const TensorPtr& input : inputs) given.push_back(input.get());
  std::vector<TF_Tensor*> made(targets.size());
  const StatusPtr status(TF_NewStatus());
  TF_SessionRun(session_, nullptr, sources.data(), given.data(),
                static_cast<int>(given.size()), targets.data(), made.data(),
                static_cast<int>(made.size()), nullptr, 0, nullptr,
                status.get());
  Check(status, "a request failed");
  return std::vector<TensorPtr>(made.begin(), made.end());
}

}  // namespace tf_hsm
