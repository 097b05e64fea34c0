// The kernels of a program and the device that interprets them: what CUDA's
// runtime is here, without its names (runtime.cc has these).
//
// The environment has its options:
//   TF_HSM_PTX_SEED          of the orders of blocks and warps; 1
//   TF_HSM_PTX_PROCESSORS    multiprocessors of the device; 2
//   TF_HSM_PTX_SHARED_BYTES  that a block can have; 232448
//   TF_HSM_PTX_RACES         0: races are no findings, as where a forged tree
//                            lets groups share rows
//   TF_HSM_PTX_PROFILE       kernels, or lines: counts of instructions at exit
// A program with findings prints them at its exit, and fails.

#ifndef TF_HSM_CC_CUDA_PTX_RUNTIME_CONTEXT_H_
#define TF_HSM_CC_CUDA_PTX_RUNTIME_CONTEXT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cc/cuda/ptx/launch.h"
#include "cc/cuda/ptx/machine.h"
#include "cc/cuda/ptx/module.h"
#include "cc/cuda/ptx/profile.h"
#include "cc/cuda/ptx/runtime/control.h"

namespace tf_hsm {
namespace ptx {

struct Limits {
  int processors = 2;
  int shared_bytes = 232448;
};

class Context {
 public:
  // That of the program.
  static Context& Get();

  // Returns the module's number. It is read when a kernel of it is launched.
  int AddModule(const void* fat_binary);
  // `host` is the function that the program launches.
  void AddKernel(int module, const void* host, const std::string& name);
  bool HasKernel(const void* host) const { return kernels_.count(host) > 0; }
  void AllowSharedBytes(const void* host, int64_t bytes);

  // Runs a kernel with its arguments; returns an error, or nothing.
  std::string Launch(const void* host, const Grid& grid, void** arguments);

  // As control.h says.
  void SetEdit(const Edit& edit);
  std::map<std::string, int64_t> TakeFindings();
  void StartProfile();
  std::vector<KernelProfile> Profiles() const;

  // The device's memory, under a lock.
  uint64_t Allocate(int64_t bytes);
  bool Free(uint64_t address);
  // Whether bytes of the host's address space are the device's.
  bool HasBytes(const void* address, int64_t bytes);

  const Limits& limits() const { return limits_; }

 private:
  struct LoadedModule {
    const void* fat_binary;
    std::unique_ptr<Module> module;  // null until a launch needs it
    std::map<std::string, uint64_t> globals;
  };
  struct KernelState {
    int module;
    std::string name;
    int64_t shared_bytes = 48 << 10;
    std::unique_ptr<Kernel> kernel;  // null until it is launched
    int64_t launches = 0;
    int64_t blocks = 0;
  };

  Context();
  static void ReportAtExit();
  Kernel* Load(KernelState* state);

  Limits limits_;
  Edit edit_;
  Device device_;
  std::mutex mutex_;
  std::vector<LoadedModule> modules_;
  std::map<const void*, KernelState> kernels_;
};

}  // namespace ptx
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_PTX_RUNTIME_CONTEXT_H_
