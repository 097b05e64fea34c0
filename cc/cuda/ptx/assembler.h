// Turns the statements of a kernel into instructions: a place in the registers
// of a warp for every register, constant and special register, and a function
// for every opcode.

#ifndef TF_HSM_CC_CUDA_PTX_ASSEMBLER_H_
#define TF_HSM_CC_CUDA_PTX_ASSEMBLER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cc/cuda/ptx/machine.h"
#include "cc/cuda/ptx/module.h"
#include "cc/cuda/ptx/opcodes.h"
#include "cc/cuda/ptx/types.h"

namespace tf_hsm {
namespace ptx {

class Assembler {
 public:
  // `globals` has the addresses of the module's global variables.
  Assembler(const Module& module, const Entry& entry,
            const std::map<std::string, uint64_t>& globals);

  // Throws Unsupported for an opcode or an operand that it does not know.
  Kernel Run();

  // --- For decoders, of the current statement ---

  const Statement& statement() const { return *statement_; }
  Instruction& instruction() { return instruction_; }
  Kernel& kernel() { return kernel_; }

  // Whether the opcode has this word behind its first; takes it away. Words
  // that nobody has taken are not supported.
  bool Take(const std::string& word);
  // The type that the opcode ends with, or nothing of that kind.
  const Type& TakeType();

  // An operand, in the place `i` of the instruction's; `bytes` 0: a predicate,
  // -1: any. Targets are registers or _.
  void Source(int i, const Operand& operand, int bytes, bool is_float = false);
  void Target(int i, const Operand& operand, int bytes);
  // An address: its base in the place `i`, the rest in the displacement.
  void Address(int i, const Operand& operand);

  const Operand& operand(size_t i) const;
  int NumOperands() const {
    return static_cast<int>(statement_->operands.size());
  }
  [[noreturn]] void Fail(const std::string& why) const;

 private:
  void Assemble(int index);
  void AssembleScalar(const Scalar& scalar);
  int32_t Allocate(int bytes);
  int32_t RegisterOffset(int index) const { return offsets_[index]; }
  int32_t ConstantOffset(uint64_t bits, int bytes);
  // For a special register, or a constant with the address of a symbol.
  int32_t NameOffset(const std::string& name, int bytes);
  bool FindAddress(const std::string& name, uint64_t* address) const;
  uint64_t ConstantBits(const Operand& operand, int bytes, bool is_float) const;

  const std::map<std::string, uint64_t>& globals_;
  Kernel kernel_;
  const Statement* statement_ = nullptr;
  Instruction instruction_;
  std::vector<std::string> words_;  // of the opcode, not yet taken
  std::vector<int32_t> offsets_;    // of registers
  std::map<std::pair<uint64_t, int>, int32_t> constants_;
};

}  // namespace ptx
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_PTX_ASSEMBLER_H_
