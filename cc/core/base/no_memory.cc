#include "cc/core/base/no_memory.h"

#include <new>

namespace tf_hsm {

void ThrowNoMemory() { throw std::bad_alloc(); }

}  // namespace tf_hsm
