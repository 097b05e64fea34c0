// Sorts the groups by their depth, on the host: see levels.h.

#include <algorithm>

#include "cc/cuda/api/levels.h"

namespace tf_hsm::gpu {

Levels MakeLevels(const TreeView& tree, std::vector<int64_t>* numbers) {
  const int64_t groups = tree.num_groups;
  std::vector<int64_t> depths(groups), places(groups), at_place(groups);
  Levels levels;
  levels.starts = {0};
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t parent = tree.group_parents[g];
    depths[g] = parent < 0 ? 0 : depths[tree.row_groups[parent]] + 1;
    const size_t level = depths[g] + 1;
    if (levels.starts.size() <= level) levels.starts.resize(level + 1);
    ++levels.starts[level];
  }
  for (size_t i = 1; i < levels.starts.size(); ++i) {
    levels.starts[i] += levels.starts[i - 1];
  }
  std::vector<int64_t> next = levels.starts;
  for (int64_t g = 0; g < groups; ++g) {
    places[g] = next[depths[g]]++;
    at_place[places[g]] = g;
  }
  levels.offsets = {0};
  for (const int64_t g : at_place) {
    levels.offsets.push_back(levels.offsets.back() + tree.group_offsets[g + 1] -
                             tree.group_offsets[g]);
  }
  numbers->clear();
  if (std::is_sorted(at_place.begin(), at_place.end())) return levels;
  *numbers = levels.offsets;
  numbers->insert(numbers->end(), at_place.begin(), at_place.end());
  numbers->insert(numbers->end(), places.begin(), places.end());
  for (const int64_t g : at_place) {
    for (int64_t row = tree.group_offsets[g]; row < tree.group_offsets[g + 1];
         ++row) {
      numbers->push_back(row);
    }
  }
  return levels;
}

Places PlacesIn(const TreeView& tree, const int64_t* numbers) {
  const int64_t* groups = numbers + tree.num_groups + 1;
  return {numbers, groups, groups + tree.num_groups,
          groups + 2 * tree.num_groups};
}

}  // namespace tf_hsm::gpu
