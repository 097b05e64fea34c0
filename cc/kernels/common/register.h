// Registers op kernels: on tensors and variables, for every element type, or on
// tensors of fixed types.

#ifndef TF_HSM_CC_KERNELS_COMMON_REGISTER_H_
#define TF_HSM_CC_KERNELS_COMMON_REGISTER_H_

#include <string>
#include <vector>

#include "cc/core/base/types.h"
#include "cc/kernels/common/element_types.h"
#include "cc/kernels/common/first_copy.h"
#include "cc/kernels/common/op_kernel.h"
#include "tensorflow/core/framework/kernel_def_builder.h"

namespace tf_hsm {

// Where op kernels run. TensorFlow tells those of one type apart by a label.
struct KernelDevice {
  const char* type;
  const char* label;
};

const KernelDevice kCpu = {tensorflow::DEVICE_CPU, ""};

// What REGISTER_KERNEL_BUILDER does.
template <typename Kernel>
void RegisterKernel(const std::string& name,
                    tensorflow::KernelDefBuilder* builder) {
  tensorflow::kernel_factory::OpKernelRegistrar(
      builder->Build(), name,
      [](OpKernelConstruction* context) -> tensorflow::OpKernel* {
        tensorflow::OpKernel* made = nullptr;
        const absl::Status status = WithMemory([&] {
          made = new OpKernelOf<Kernel>(context);
          return absl::OkStatus();
        });
        if (!status.ok()) context->CtxFailure(status);
        return made;
      });
}

// Registers Kernel, which has no element type, as the op `name` on CPUs.
template <typename Kernel>
bool RegisterOnCpu(const char* name) {
  if (!IsFirstCopy()) return false;
  tensorflow::KernelDefBuilder builder(name);
  builder.Device(tensorflow::DEVICE_CPU);
  RegisterKernel<Kernel>(name, &builder);
  return true;
}

// Registers Kernel<T>, T the core's element type, as the op "Resource" + `name`
// on variables, and as the op `name` on tensors where Kernel<T>::kTakesTensors.
// Inputs that `host_memory` names stay in host memory; so do handles of
// variables.
template <template <typename> class Kernel>
class KernelRegistration {
 public:
  KernelRegistration(const KernelDevice& device, const std::string& name,
                     const std::vector<const char*>& host_memory = {}) {
    // Kernels with a label, of the emulation, stand beside the others.
    if (device.label[0] == '\0' && !IsFirstCopy()) return;
#define TF_HSM_REGISTER(core, tensorflow_type, type_name)                     \
  if (Kernel<core>::kTakesTensors) Register<core>(device, name, host_memory); \
  Register<core>(device, "Resource" + name, host_memory);
    TF_HSM_ELEMENT_TYPES(TF_HSM_REGISTER)
#undef TF_HSM_REGISTER
  }

 private:
  template <typename T>
  static void Register(const KernelDevice& device, const std::string& name,
                       const std::vector<const char*>& host_memory) {
    tensorflow::KernelDefBuilder builder(name.c_str());
    builder.Device(device.type)
        .Label(device.label)
        .TypeConstraint("T", kDataType<T>)
        .TypeConstraint("Taccumulator", kDataType<Accumulator<T>>);
    for (const char* input : host_memory) builder.HostMemory(input);
    RegisterKernel<Kernel<T>>(name, &builder);
  }
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_COMMON_REGISTER_H_
