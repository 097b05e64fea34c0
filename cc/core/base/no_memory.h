// The end of a kernel that finds no memory.

#ifndef TF_HSM_CC_CORE_BASE_NO_MEMORY_H_
#define TF_HSM_CC_CORE_BASE_NO_MEMORY_H_

namespace tf_hsm {

// Throws std::bad_alloc: out of line, since code that is compiled once per ISA
// includes no header of the standard library that has code.
[[noreturn]] void ThrowNoMemory();

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_BASE_NO_MEMORY_H_
