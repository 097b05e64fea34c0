// The path of a class, from its leaf up to a root.

#ifndef TF_HSM_CC_CORE_API_CLASS_PATH_H_
#define TF_HSM_CC_CORE_API_CLASS_PATH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/tree/tree_view.h"

namespace tf_hsm {

// Rows of paths that are held at a time, but for one path.
constexpr int64_t kMaxSteps = 1 << 20;

// A row on the path of a class.
struct Step {
  int64_t group;
  int64_t example;
  int64_t local;  // the row, counted in its group
  int64_t slot;   // among the steps of all paths, each from its leaf up
};

// Adds the path of `label`, element number `at` of the array `name`, and finds
// its root.
std::string AddPath(const TreeView& tree, const char* name, int64_t at,
                    int64_t label, int64_t example, std::vector<Step>* steps,
                    int64_t* root);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_API_CLASS_PATH_H_
