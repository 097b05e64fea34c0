#include "cc/kernels/gpu/device_tree.h"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>  // NOLINT(build/c++11)
#include <string>
#include <utility>
#include <vector>

#include "cc/core/tree_walk.h"
#include "cc/kernels/gpu/device.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace tf_hsm {
namespace gpu {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

constexpr const char* kNames[] = {"group_offsets", "group_parents",
                                  "class_rows", "row_groups", "class_ranks"};
constexpr int kNumArrays = 5;

// Kernels cannot say what is wrong with a tree. Both checks are O(tree) work,
// as is the copy.

std::string CheckGroups(const TreeView& tree) {
  for (int64_t g = 0; g < tree.num_groups; ++g) {
    GroupSpan span;
    const std::string error = GroupAt(tree, g, &span);
    if (!error.empty()) return error;
    const int64_t last = span.first_row + span.fanout;
    for (int64_t row = span.first_row; row < last; ++row) {
      if (tree.row_groups[row] == g) continue;
      return At("row_groups", row, tree.row_groups[row]) + ", but group " +
             std::to_string(g) + " has that row";
    }
    const int64_t parent = tree.group_parents[g];
    if (g == 0 && parent != -1) {
      return At("group_parents", 0, parent) +
             ", but the root's group has the parent -1";
    }
    if (g > 0 && (parent < 0 || parent >= span.first_row)) {
      return OutOfRange("group_parents", g, parent, 0, span.first_row);
    }
  }
  for (const int64_t g : {int64_t{0}, tree.num_groups}) {
    const int64_t row = g == 0 ? 0 : tree.num_rows;
    if (tree.group_offsets[g] == row) continue;
    return At("group_offsets", g, tree.group_offsets[g]) +
           ", but the groups must have all rows: " + std::to_string(row);
  }
  return "";
}

// Ranks of the leaves below a row.
struct RankSpan {
  int64_t low = std::numeric_limits<int64_t>::max();
  int64_t high = -1;
  int64_t count = 0;

  void Add(const RankSpan& other) {
    low = std::min(low, other.low);
    high = std::max(high, other.high);
    count += other.count;
  }
};

// After CheckGroups.
std::string CheckLeaves(const TreeView& tree) {
  std::vector<RankSpan> below(tree.num_rows);
  std::vector<bool> taken(tree.num_classes);
  for (int64_t c = 0; c < tree.num_classes; ++c) {
    const int64_t row = tree.class_rows[c], rank = tree.class_ranks[c];
    if (row < 0 || row >= tree.num_rows) {
      return OutOfRange("class_rows", c, row, 0, tree.num_rows);
    }
    if (rank < 0 || rank >= tree.num_classes) {
      return OutOfRange("class_ranks", c, rank, 0, tree.num_classes);
    }
    if (below[row].count > 0 || taken[rank]) {
      return below[row].count > 0
                 ? At("class_rows", c, row) + " is another class's row too"
                 : At("class_ranks", c, rank) + " is another class's rank too";
    }
    below[row] = {rank, rank, 1};
    taken[rank] = true;
  }
  for (int64_t g = tree.num_groups - 1; g > 0; --g) {
    RankSpan span;
    for (int64_t row = tree.group_offsets[g]; row < tree.group_offsets[g + 1];
         ++row) {
      span.Add(below[row]);
    }
    const int64_t parent = tree.group_parents[g];
    if (below[parent].count > 0) {
      return At("group_parents", g, parent) +
             " is the row of a class or of another group too";
    }
    if (span.high - span.low + 1 != span.count) {
      return "class_ranks is not the depth-first order of this tree's leaves, "
             "below group_parents[" +
             std::to_string(g) + "] = " + std::to_string(parent);
    }
    below[parent] = span;
  }
  return "";
}

absl::Status CopyTree(OpKernelContext* context, const TreeView& host,
                      DeviceTree* tree) {
  TF_RETURN_IF_ERROR(StatusOf(CheckGroups(host)));
  TF_RETURN_IF_ERROR(StatusOf(CheckLeaves(host)));
  int64_t total = 0;
  for (int i = 0; i < kNumArrays; ++i) {
    const Tensor* array;
    TF_RETURN_IF_ERROR(context->input(kNames[i], &array));
    tree->host_arrays[i] = *array;
    total += array->NumElements();
  }
  TF_RETURN_IF_ERROR(context->allocate_temp(
      tensorflow::DT_INT64, tensorflow::TensorShape({total}), &tree->arrays));
  tree->shape = DescribeTree(host);
  tree->view = host;
  const int64_t** parts[] = {&tree->view.group_offsets,
                             &tree->view.group_parents, &tree->view.class_rows,
                             &tree->view.row_groups, &tree->view.class_ranks};
  int64_t* next = static_cast<int64_t*>(tree->arrays.data());
  for (int i = 0; i < kNumArrays; ++i) {
    const Tensor& array = tree->host_arrays[i];
    TF_RETURN_IF_ERROR(
        CopyToDevice(context, array.data(), array.TotalBytes(), next));
    *parts[i] = next;
    next += array.NumElements();
  }
  return absl::OkStatus();
}

// The trees of one device.
class DeviceTrees : public tensorflow::ResourceBase {
 public:
  std::string DebugString() const override { return "trees of tf_hsm"; }

  absl::Status Find(OpKernelContext* context, const TreeView& host,
                    std::shared_ptr<const DeviceTree>* tree) {
    const Key key = {{host.group_offsets, host.group_parents, host.class_rows,
                      host.row_groups, host.class_ranks},
                     {host.num_groups, host.num_classes, host.num_rows}};
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = trees_.find(key);
    if (found == trees_.end()) {
      Forget();
      auto made = std::make_shared<DeviceTree>();
      TF_RETURN_IF_ERROR(CopyTree(context, host, made.get()));
      found = trees_.emplace(key, std::move(made)).first;
    }
    *tree = found->second;
    return absl::OkStatus();
  }

 private:
  using Key =
      std::pair<std::array<const int64_t*, kNumArrays>, std::array<int64_t, 3>>;

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

}  // namespace gpu
}  // namespace tf_hsm
