// Huge pages under parameters.
//
// The rows of a path lie anywhere in the weights: with pages of 4 KiB nearly
// every row costs a walk through the page tables. Who makes the variables
// (TensorFlow) asks for no others, so whoever uses them asks for them here.

#ifndef TF_HSM_CC_CORE_BASE_HUGE_PAGES_H_
#define TF_HSM_CC_CORE_BASE_HUGE_PAGES_H_

#include <cstddef>

namespace tf_hsm {

// Asks the system to move the memory [data, data + bytes), which keeps its
// address and its values, to huge pages; the first time this takes about 0.3 s
// for each GB, later nothing. Returns whether the system was asked: not for
// small memory, nor again within a minute, nor where it or the environment
// variable TF_HSM_HUGE_PAGES=0 says never.
bool PreferHugePages(const void* data, size_t bytes);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_BASE_HUGE_PAGES_H_
