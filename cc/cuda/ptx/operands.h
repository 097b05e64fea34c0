// The names of a kernel's registers, and operands of its statements.

#ifndef TF_HSM_CC_CUDA_PTX_OPERANDS_H_
#define TF_HSM_CC_CUDA_PTX_OPERANDS_H_

#include <map>
#include <string>
#include <vector>

#include "cc/cuda/ptx/module.h"

namespace tf_hsm {
namespace ptx {

// Numbers registers. A name that is declared again, in another block of the
// text, is another register from there on.
class RegisterNames {
 public:
  // What follows .reg: ".b32 %r<12>", ".pred p, q".
  void Declare(const std::string& text);
  // Returns the register's number; throws Unsupported where there is none.
  int Find(const std::string& name);
  bool Has(const std::string& name) const;

  std::vector<int> bytes;  // of each register, or kPredicate

 private:
  std::map<std::string, int> numbers_;
  std::map<std::string, int> ranges_;  // %r -> bytes
};

// Splits at commas that are in no bracket.
std::vector<std::string> SplitOperands(const std::string& text);

Operand ParseOperand(const std::string& text, RegisterNames& names);

}  // namespace ptx
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_PTX_OPERANDS_H_
