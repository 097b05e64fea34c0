#include "cc/cuda/ptx/launch.h"

#include <algorithm>
#include <numeric>

#include "cc/cuda/ptx/block.h"

namespace tf_hsm {
namespace ptx {

std::string Launch(Kernel* kernel, const Grid& grid,
                   const std::vector<char>& parameters, Device* device) {
  // Blocks run one after another. Where one may wait for those before it, they
  // run in their order, in which a device starts them.
  std::vector<int64_t> order(grid.blocks);
  std::iota(order.begin(), order.end(), 0);
  if (!kernel->waits_for_blocks) {
    std::shuffle(order.begin(), order.end(), device->rng);
  }
  try {
    Block block(kernel, grid, parameters, device);
    for (int64_t index : order) block.Run(index);
  } catch (const Fault& fault) {
    device->findings.Add(fault.what());
    return fault.what();
  }
  return "";
}

}  // namespace ptx
}  // namespace tf_hsm
