#include "cc/kernels/gpu/device_tree.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>  // NOLINT(build/c++11)
#include <utility>

#include "cc/core/api/log_probs.h"
#include "cc/kernels/common/arguments.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/gpu/device.h"
#include "cc/kernels/gpu/tree_checks.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace tf_hsm::gpu {
namespace {

constexpr int kNumArrays = 7;

struct Array {
  const char* name;
  const int64_t* TreeView::* data;
  int64_t size;
};

std::array<Array, kNumArrays> ArraysOf(const TreeView& tree) {
  return {{{"group_offsets", &TreeView::group_offsets, tree.num_groups + 1},
           {"group_parents", &TreeView::group_parents, tree.num_groups},
           {"class_rows", &TreeView::class_rows, tree.num_classes},
           {"row_groups", &TreeView::row_groups, tree.num_rows},
           {"class_ranks", &TreeView::class_ranks, tree.num_classes},
           {"row_below", &TreeView::row_below, tree.num_rows},
           {"root_groups", &TreeView::root_groups, tree.num_roots}}};
}

absl::Status Allocate(OpKernelContext* context, int64_t count, Tensor* tensor) {
  return context->allocate_temp(tensorflow::DT_INT64, TensorShape({count}),
                                tensor);
}

// Copies those arrays that are there.
absl::Status Copy(OpKernelContext* context, const TreeView& host,
                  DeviceTree* tree) {
  tree->view = host;
  int64_t total = 0;
  for (const Array& array : ArraysOf(host)) {
    if (host.*array.data != nullptr) total += array.size;
  }
  TF_RETURN_IF_ERROR(Allocate(context, total, &tree->arrays));
  int64_t* next = static_cast<int64_t*>(tree->arrays.data());
  for (const Array& array : ArraysOf(host)) {
    if (host.*array.data == nullptr) continue;
    TF_RETURN_IF_ERROR(CopyToDevice(context, host.*array.data,
                                    array.size * sizeof(int64_t), next));
    tree->view.*array.data = next;
    next += array.size;
  }
  return absl::OkStatus();
}

// `host` has the arrays for walks up too.
absl::Status CopyLevels(OpKernelContext* context, const TreeView& host,
                        DeviceTree* tree) {
  std::vector<int64_t> numbers;
  tree->levels = MakeLevels(host, &numbers);
  if (numbers.empty()) return absl::OkStatus();
  const int64_t count = numbers.size();
  TF_RETURN_IF_ERROR(Allocate(context, count, &tree->places));
  int64_t* data = static_cast<int64_t*>(tree->places.data());
  TF_RETURN_IF_ERROR(
      CopyToDevice(context, numbers.data(), count * sizeof(int64_t), data));
  tree->levels.places = PlacesIn(host, data);
  return absl::OkStatus();
}

absl::Status Make(OpKernelContext* context, TreeView host, DeviceTree* tree) {
  for (const Array& array : ArraysOf(host)) {
    if (host.*array.data == nullptr) continue;
    const Tensor* tensor;
    TF_RETURN_IF_ERROR(FindOptional(context, array.name, &tensor));
    tree->host_arrays.push_back(*tensor);
  }
  ArraysAbove above;
  if (host.row_below == nullptr) {
    TF_RETURN_IF_ERROR(StatusOf(CheckTreeAbove(host)));
  } else {
    std::vector<int64_t> unused;
    TF_RETURN_IF_ERROR(StatusOf(FindLevels(host, &unused)));
    FindArraysAbove(&host, &above);
    TF_RETURN_IF_ERROR(CopyLevels(context, host, tree));
  }
  tree->shape = DescribeTree(host);
  return Copy(context, host, tree);
}

// The trees of one device.
class DeviceTrees : public tensorflow::ResourceBase {
 public:
  std::string DebugString() const override { return "trees of tf_hsm"; }

  absl::Status Find(OpKernelContext* context, const TreeView& host,
                    std::shared_ptr<const DeviceTree>* tree) {
    Key key;
    key.second = {host.num_groups, host.num_classes, host.num_rows,
                  host.pinned};
    const std::array<Array, kNumArrays> arrays = ArraysOf(host);
    for (int i = 0; i < kNumArrays; ++i) key.first[i] = host.*arrays[i].data;
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = trees_.find(key);
    if (found == trees_.end()) {
      Forget();
      auto made = std::make_shared<DeviceTree>();
      TF_RETURN_IF_ERROR(Make(context, host, made.get()));
      found = trees_.emplace(key, std::move(made)).first;
    }
    *tree = found->second;
    return absl::OkStatus();
  }

 private:
  using Key =
      std::pair<std::array<const int64_t*, kNumArrays>, std::array<int64_t, 4>>;

  // Frees the trees that only this refers to.
  void Forget() {
    for (auto it = trees_.begin(); it != trees_.end();) {
      const auto& arrays = it->second->host_arrays;
      const bool unused = std::any_of(
          arrays.begin(), arrays.end(),
          [](const Tensor& array) { return array.RefCountIsOne(); });
      it = unused ? trees_.erase(it) : std::next(it);
    }
  }

  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const DeviceTree>> trees_;
};

}  // namespace

absl::Status FindDeviceTree(OpKernelContext* context, const TreeView& host,
                            std::shared_ptr<const DeviceTree>* tree) {
  tensorflow::ResourceMgr* manager = context->resource_manager();
  tensorflow::core::RefCountPtr<DeviceTrees> trees;
  DeviceTrees* found = nullptr;
  TF_RETURN_IF_ERROR(manager->LookupOrCreate<DeviceTrees>(
      manager->default_container(), "tf_hsm_trees", &found,
      [](DeviceTrees** made) {
        *made = new DeviceTrees;
        return absl::OkStatus();
      }));
  trees.reset(found);
  return trees->Find(context, host, tree);
}

}  // namespace tf_hsm::gpu
