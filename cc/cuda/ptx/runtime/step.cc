// Counts the instructions of a training step: of its kernels, and of each item
// of work.
//
//   bazel run //cc/cuda/ptx/runtime:step -- --rows=1280 --examples=640
//       --width=300 --type=bfloat16 --profile
//
//   --rows=N --examples=N --width=N   1280, 640 and 300 unless given
//   --tree=flat|two_level             one group, or about sqrt(N) of them
//   --type=float32|bfloat16|float16   on tensor cores
//   --profile                         a table of kernels
//   --lines                           also the lines with most instructions

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cc/cuda/check/cases.h"
#include "cc/cuda/check/loss_case.h"
#include "cc/cuda/check/plan_facts.h"
#include "cc/cuda/ptx/runtime/control.h"

namespace tf_hsm {
namespace gpu {
namespace {

struct Flags {
  int64_t rows = 1280, examples = 640, width = 300;
  std::string tree = "flat", type = "float32";
  bool profile = false, lines = false;
};

template <typename T>
PlanFacts FactsBehind(const Batch<T>& batch, const Memory& memory) {
  const LossLauncher<T> launcher(batch, memory, nullptr);
  const DevicePlan& plan = launcher.buffers.plan;
  Counts counts;
  DeviceBlock::Download(plan.counts, sizeof(counts), &counts);
  std::vector<DeviceNode> nodes(counts.num_nodes);
  DeviceBlock::Download(plan.nodes, nodes.size() * sizeof(DeviceNode),
                        nodes.data());
  return FactsOf(nodes, counts);
}

void PrintPerItem(const PlanFacts& facts) {
  const std::pair<const char*, int64_t> kernels[] = {
      {"ForwardLarge", facts.forward_items},
      {"HotLogits", facts.hot_forward_items},
      {"HotRows", facts.hot_forward_items},
      {"BackwardLarge", facts.backward_items},
      {"HotGradients", facts.hot_backward_items}};
  std::printf(
      "| kernel | items | warp instructions per item |\n|---|---|---|\n");
  for (const auto& [name, count] : ptx::WarpInstructions()) {
    for (const auto& [kernel, items] : kernels) {
      if (items == 0 || name.find(kernel) == std::string::npos) continue;
      std::printf("| `%s` | %lld | %.0f |\n", name.c_str(),
                  static_cast<long long>(items),
                  static_cast<double>(count) / items);
    }
  }
}

template <typename T>
int Run(const Flags& flags) {
  std::mt19937 rng(1);
  CheckCase c = Case(
      flags.tree == "flat" ? FlatTree(flags.rows) : TwoLevelTree(flags.rows),
      flags.examples, flags.width);
  c.name = "step";
  c.logits = int64_t{1} << 30;
  LossCase<T> loss(c, Precision::kTensorCores, &rng);
  for (int64_t& label : loss.labels) {
    if (label < 0 || label >= loss.tree.num_classes) label = 1;
  }
  const DeviceCase<T> device(loss);
  const DeviceMemory blocks(device.batch, c.logits);
  const DeviceArray<float> losses(flags.examples),
      dx(flags.examples * flags.width),
      grads(std::vector<float>(flags.examples, 1e-6f));
  const DeviceArray<Hyperparameters> hyper({Hyperparameters{1e-3}});
  DeviceUpdate<T> update;
  update.hyper = hyper.data();
  update.weights = device.w.data();
  update.biases = device.b.data();
  ptx::StartProfile();
  std::string error =
      Forward<T>(device.batch, blocks.memory,
                 {losses.data(), dx.data(), grads.data()}, CheckStream());
  error += ApplyUpdate<T>(device.batch, blocks.memory, grads.data(), update,
                          CheckStream());
  if (!error.empty()) {
    std::fprintf(stderr, "%s\n", error.c_str());
    return EXIT_FAILURE;
  }
  PrintPerItem(FactsBehind(device.batch, blocks.memory));
  if (flags.profile || flags.lines) {
    std::printf("\n%s", ptx::ProfileText(flags.lines).c_str());
  }
  return EXIT_SUCCESS;
}

bool Parse(int argc, char** argv, Flags* flags) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equal = argument.find('=');
    const std::string name = argument.substr(0, equal);
    const std::string value =
        equal == std::string::npos ? "" : argument.substr(equal + 1);
    if (name == "--rows") {
      flags->rows = std::atoll(value.c_str());
    } else if (name == "--examples") {
      flags->examples = std::atoll(value.c_str());
    } else if (name == "--width") {
      flags->width = std::atoll(value.c_str());
    } else if (name == "--tree" && (value == "flat" || value == "two_level")) {
      flags->tree = value;
    } else if (name == "--type") {
      flags->type = value;
    } else if (argument == "--profile") {
      flags->profile = true;
    } else if (argument == "--lines") {
      flags->lines = true;
    } else {
      std::fprintf(stderr, "no flag %s\n", argument.c_str());
      return false;
    }
  }
  return flags->rows > 0 && flags->examples > 0 && flags->width > 0;
}

}  // namespace
}  // namespace gpu
}  // namespace tf_hsm

int main(int argc, char** argv) {
  using namespace tf_hsm::gpu;  // NOLINT
  Flags flags;
  if (!Parse(argc, argv, &flags)) return EXIT_FAILURE;
  if (flags.type == "float32") return Run<float>(flags);
  if (flags.type == "bfloat16") return Run<tf_hsm::bfloat16>(flags);
  if (flags.type == "float16") return Run<tf_hsm::half>(flags);
  std::fprintf(stderr, "no type %s\n", flags.type.c_str());
  return EXIT_FAILURE;
}
