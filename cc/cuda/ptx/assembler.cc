#include "cc/cuda/ptx/assembler.h"

#include <algorithm>
#include <cstring>

#include "cc/cuda/ptx/findings.h"

namespace tf_hsm {
namespace ptx {
namespace {

constexpr const char* kSpecials[] = {
    "%tid.x",       "%ntid.x",      "%ctaid.x",     "%nctaid.x",
    "%laneid",      "%lanemask_lt", "%lanemask_le", "%lanemask_gt",
    "%lanemask_ge", "%lanemask_eq"};

bool IsSpecial(const std::string& name) {
  return std::find(std::begin(kSpecials), std::end(kSpecials), name) !=
         std::end(kSpecials);
}

const Variable* FindVariable(const Layout& layout, const std::string& name) {
  for (const Variable& variable : layout.variables) {
    if (variable.name == name) return &variable;
  }
  return nullptr;
}

template <typename To, typename From>
To BitsAs(From value) {
  To result = {};
  std::memcpy(&result, &value, std::min(sizeof(result), sizeof(value)));
  return result;
}

std::vector<std::string> SplitAtPoints(const std::string& opcode) {
  std::vector<std::string> words;
  std::istringstream stream(opcode);
  for (std::string word; std::getline(stream, word, '.');) {
    words.push_back(word);
  }
  return words;
}

}  // namespace

Assembler::Assembler(const Module& module, const Entry& entry,
                     const std::map<std::string, uint64_t>& globals)
    : globals_(globals) {
  kernel_.module = &module;
  kernel_.entry = &entry;
  for (int bytes : entry.registers) offsets_.push_back(Allocate(bytes));
}

Kernel Assembler::Run() {
  const int count = static_cast<int>(kernel_.entry->statements.size());
  for (int i = 0; i < count; ++i) Assemble(i);
  // Lanes that run past the last statement have ended, too.
  Instruction end;
  end.flow = Flow::kExit;
  end.statement = count - 1;
  kernel_.code.push_back(end);
  kernel_.counts.resize(kernel_.code.size());
  return std::move(kernel_);
}

void Assembler::Assemble(int index) {
  statement_ = &kernel_.entry->statements[index];
  instruction_ = Instruction();
  instruction_.statement = index;
  if (statement_->guard >= 0) {
    instruction_.guard = RegisterOffset(statement_->guard);
    instruction_.guard_negated = statement_->guard_negated;
  }
  const OpcodeTable& table = Opcodes();
  const auto scalar = table.scalars.find(statement_->opcode);
  const bool vectors =
      std::any_of(statement_->operands.begin(), statement_->operands.end(),
                  [](const Operand& operand) {
                    return operand.kind == Operand::Kind::kVector;
                  });
  if (scalar != table.scalars.end() && !vectors) {
    AssembleScalar(scalar->second);
  } else {
    words_ = SplitAtPoints(statement_->opcode);
    const auto family = table.families.find(words_[0]);
    if (family == table.families.end()) Fail("an unknown opcode");
    words_.erase(words_.begin());
    family->second(*this);
    if (!words_.empty()) Fail("an unknown ." + words_[0]);
  }
  kernel_.code.push_back(instruction_);
}

void Assembler::AssembleScalar(const Scalar& scalar) {
  instruction_.execute = scalar.execute;
  if (scalar.operands.size() != statement_->operands.size()) {
    Fail("another number of operands");
  }
  for (size_t i = 0; i < scalar.operands.size(); ++i) {
    const OperandType& type = scalar.operands[i];
    const int place = static_cast<int>(i);
    if (i == 0) {
      // There are no registers of 8 bits.
      Target(0, operand(0), type.bytes == 1 ? -1 : type.bytes);
      continue;
    }
    const bool may_be_wide = scalar.execute_wide != nullptr;
    Source(place, operand(i), may_be_wide ? -1 : type.bytes, type.is_float);
    const int own = instruction_.operand_bytes[place];
    if (own != type.bytes) instruction_.execute = scalar.execute_wide;
    if (own < type.bytes) Fail("a register of another size");
  }
}

bool Assembler::Take(const std::string& word) {
  const auto found = std::find(words_.begin(), words_.end(), word);
  if (found == words_.end()) return false;
  words_.erase(found);
  return true;
}

const Type& Assembler::TakeType() {
  const Type* type = words_.empty() ? nullptr : FindType(words_.back());
  if (type == nullptr) Fail("no type");
  words_.pop_back();
  return *type;
}

void Assembler::Target(int i, const Operand& operand, int bytes) {
  int own = bytes;
  if (operand.kind == Operand::Kind::kSink) {
    instruction_.operands[i] = Allocate(bytes);
  } else if (operand.kind == Operand::Kind::kRegister) {
    own = kernel_.entry->registers[operand.index];
    instruction_.operands[i] = RegisterOffset(operand.index);
  } else {
    Fail("no register for a result");
  }
  if (bytes >= 0 && own != bytes) Fail("a register of another size");
  instruction_.operand_bytes[i] = static_cast<uint8_t>(own);
}

void Assembler::Source(int i, const Operand& operand, int bytes,
                       bool is_float) {
  if (operand.negated) Fail("a negated operand");
  int own = bytes;
  int32_t& offset = instruction_.operands[i];
  switch (operand.kind) {
    case Operand::Kind::kRegister:
      own = kernel_.entry->registers[operand.index];
      offset = RegisterOffset(operand.index);
      break;
    case Operand::Kind::kName:
      offset = NameOffset(operand.name, bytes);
      break;
    case Operand::Kind::kInteger:
    case Operand::Kind::kFloat32:
    case Operand::Kind::kFloat64:
      if (bytes < 0) own = 8;
      offset = ConstantOffset(ConstantBits(operand, own, is_float), own);
      break;
    default:
      Fail("an operand of an unknown kind");
  }
  if (bytes >= 0 && own != bytes) Fail("a register of another size");
  instruction_.operand_bytes[i] = static_cast<uint8_t>(own);
}

void Assembler::Address(int i, const Operand& operand) {
  if (operand.kind != Operand::Kind::kAddress) Fail("no address");
  instruction_.displacement = operand.displacement;
  if (operand.index >= 0) {
    instruction_.operands[i] = RegisterOffset(operand.index);
    instruction_.operand_bytes[i] =
        static_cast<uint8_t>(kernel_.entry->registers[operand.index]);
    return;
  }
  uint64_t base = 0;
  if (!FindAddress(operand.name, &base)) Fail("no variable " + operand.name);
  instruction_.operands[i] = ConstantOffset(base, 8);
  instruction_.operand_bytes[i] = 8;
}

const Operand& Assembler::operand(size_t i) const {
  if (i >= statement_->operands.size()) Fail("too few operands");
  return statement_->operands[i];
}

void Assembler::Fail(const std::string& why) const {
  const int index =
      static_cast<int>(statement_ - kernel_.entry->statements.data());
  throw Unsupported(why + ": " + Where(*kernel_.module, *kernel_.entry, index));
}

// Rows are aligned to their lanes' numbers.
int32_t Assembler::Allocate(int bytes) {
  const int64_t offset = kernel_.register_bytes;
  kernel_.register_bytes += bytes == kPredicate ? 32 : int64_t{kLanes} * bytes;
  return static_cast<int32_t>(offset);
}

int32_t Assembler::ConstantOffset(uint64_t bits, int bytes) {
  const auto [found, is_new] = constants_.insert({{bits, bytes}, 0});
  if (is_new) {
    found->second = Allocate(bytes);
    kernel_.constants.push_back({found->second, bytes, bits});
  }
  return found->second;
}

int32_t Assembler::NameOffset(const std::string& name, int bytes) {
  if (IsSpecial(name)) {
    if (bytes != 4) Fail("a special register of 32 bits");
    for (const Kernel::Special& special : kernel_.specials) {
      if (special.name == name) return special.offset;
    }
    kernel_.specials.push_back({name, Allocate(4)});
    return kernel_.specials.back().offset;
  }
  uint64_t address = 0;
  if (bytes < 4 || !FindAddress(name, &address)) Fail("no variable " + name);
  return ConstantOffset(address, bytes);
}

bool Assembler::FindAddress(const std::string& name, uint64_t* address) const {
  const Entry& entry = *kernel_.entry;
  if (const Variable* shared = FindVariable(entry.shared, name)) {
    *address = shared->offset;
  } else if (name == kernel_.module->dynamic_shared) {
    *address = (entry.shared.end + 15) / 16 * 16;  // see SharedBytes
  } else if (const Variable* own = FindVariable(entry.parameters, name)) {
    *address = kParameterWindow + own->offset;
  } else {
    const auto global = globals_.find(name);
    if (global == globals_.end()) return false;
    *address = global->second;
  }
  return true;
}

uint64_t Assembler::ConstantBits(const Operand& operand, int bytes,
                                 bool is_float) const {
  const bool is_integer = operand.kind == Operand::Kind::kInteger;
  if (bytes == kPredicate) return operand.bits != 0 ? kAllLanes : 0;
  if (is_integer) {
    if (is_float) Fail("an integer for a floating-point number");
    return bytes == 8 ? operand.bits
                      : operand.bits & ((uint64_t{1} << (8 * bytes)) - 1);
  }
  const double value = operand.kind == Operand::Kind::kFloat64
                           ? BitsAs<double>(operand.bits)
                           : BitsAs<float>(operand.bits);
  return bytes == 8 ? BitsAs<uint64_t>(value)
                    : BitsAs<uint32_t>(static_cast<float>(value));
}

}  // namespace ptx
}  // namespace tf_hsm
