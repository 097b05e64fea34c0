// A module of PTX after parsing: kernels as lists of statements.

#ifndef TF_HSM_CC_CUDA_PTX_MODULE_H_
#define TF_HSM_CC_CUDA_PTX_MODULE_H_

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace tf_hsm {
namespace ptx {

// PTX that the interpreter cannot read or does not know.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Operand {
  enum class Kind {
    kRegister,
    kInteger,
    kFloat32,
    kFloat64,
    kName,     // a symbol, a label or a special register
    kAddress,  // [base + displacement]
    kVector,   // {a, b}, or a|b
    kSink,     // _
  };
  Kind kind = Kind::kInteger;
  bool negated = false;  // !p
  int index = -1;        // of a register; of an address's base, or -1
  uint64_t bits = 0;     // of a number
  int64_t displacement = 0;
  std::string name;  // of kName, and of an address's base
  std::vector<Operand> parts;
};

// Lines of the CUDA sources, from .loc; 0: unknown.
struct SourcePosition {
  int file = 0, line = 0;
  int caller_file = 0, caller_line = 0;  // where the function was inlined
};

struct Statement {
  int line = 0;  // of the module's text
  SourcePosition source;
  std::string text;
  int guard = -1;  // a predicate register, or -1
  bool guard_negated = false;
  std::string opcode;  // as add.s32
  std::vector<Operand> operands;
};

// A parameter or an array, at an offset of its memory.
struct Variable {
  std::string name;
  int64_t offset = 0;
  int64_t bytes = 0;
};

// Variables one behind the other, each aligned.
struct Layout {
  void Add(const std::string& name, int64_t bytes, int64_t alignment) {
    const int64_t offset = (end + alignment - 1) / alignment * alignment;
    variables.push_back({name, offset, bytes});
    end = offset + bytes;
  }
  std::vector<Variable> variables;
  int64_t end = 0;
};

constexpr int kPredicate = 0;  // in the place of a register's bytes

struct Entry {
  std::string name;
  int max_threads = 1024;  // of a block
  Layout parameters;
  Layout shared;
  std::vector<int> registers;  // bytes of each, or kPredicate
  std::map<std::string, int> labels;
  std::vector<Statement> statements;
};

struct Global {
  std::string name;
  std::vector<char> bytes;
};

struct Module {
  std::map<std::string, Entry> entries;
  std::vector<Global> globals;
  std::map<int, std::string> files;  // that SourcePosition numbers
  std::string dynamic_shared;        // its name; may be empty
};

// Throws Unsupported, with the line.
Module Parse(const std::string& text);

}  // namespace ptx
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_PTX_MODULE_H_
