#include "cc/cuda/ptx/operands.h"

#include <algorithm>
#include <cctype>

#include "cc/cuda/ptx/types.h"

namespace tf_hsm {
namespace ptx {
namespace {

// Turns %r12 into %r.
std::string WithoutNumber(const std::string& name) {
  return name.substr(0, name.find_last_not_of("0123456789") + 1);
}

// 12, 0x1f, 4U, 0f3F800000, 0d3FF0000000000000.
Operand ParseNumber(const std::string& text) {
  Operand operand;
  const bool negative = text[0] == '-';
  std::string digits = text.substr(negative || text[0] == '+');
  const std::string prefix = digits.substr(0, 2);
  const auto parse = [](const std::string& number, int base) {
    size_t end = 0;
    const uint64_t value = std::stoull(number, &end, base);
    if (end < number.size()) throw std::invalid_argument(number);
    return value;
  };
  try {
    if (prefix == "0f" || prefix == "0F" || prefix == "0d" || prefix == "0D") {
      const bool wide = prefix == "0d" || prefix == "0D";
      operand.kind = wide ? Operand::Kind::kFloat64 : Operand::Kind::kFloat32;
      operand.bits = parse(digits.substr(2), 16);
      if (negative) operand.bits ^= uint64_t{1} << (wide ? 63 : 31);
      return operand;
    }
    digits.resize(digits.find_last_not_of("UL") + 1);
    operand.bits = parse(digits, 0);
  } catch (const std::logic_error&) {
    throw Unsupported("number " + text);
  }
  if (negative) operand.bits = -operand.bits;
  return operand;
}

// [%rd1+8], [name+-4], [%r2].
Operand ParseAddress(const std::string& text, RegisterNames& names) {
  Operand operand;
  operand.kind = Operand::Kind::kAddress;
  const size_t plus = std::min(text.find('+'), text.size());
  const std::string base = Trimmed(text.substr(0, plus));
  if (names.Has(base)) {
    operand.index = names.Find(base);
  } else {
    operand.name = base;
  }
  if (plus < text.size()) {
    operand.displacement =
        static_cast<int64_t>(ParseNumber(Trimmed(text.substr(plus + 1))).bits);
  }
  return operand;
}

}  // namespace

void RegisterNames::Declare(const std::string& text) {
  std::string rest = text;
  std::replace(rest.begin(), rest.end(), ',', ' ');
  const std::vector<std::string> words = Words(rest);
  const Type* type = FindType(words[0].substr(1));
  if (type == nullptr && words[0] != ".pred") {
    throw Unsupported("registers of type " + words[0]);
  }
  const int width = type != nullptr ? type->bytes : kPredicate;
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t bracket = words[i].find('<');
    if (bracket != std::string::npos) {
      ranges_[words[i].substr(0, bracket)] = width;
    } else {
      numbers_[words[i]] = static_cast<int>(bytes.size());
      bytes.push_back(width);
    }
  }
}

bool RegisterNames::Has(const std::string& name) const {
  return numbers_.count(name) > 0 || ranges_.count(WithoutNumber(name)) > 0;
}

int RegisterNames::Find(const std::string& name) {
  const auto found = numbers_.find(name);
  if (found != numbers_.end()) return found->second;
  const auto range = ranges_.find(WithoutNumber(name));
  if (range == ranges_.end()) throw Unsupported("no register " + name);
  const int number = static_cast<int>(bytes.size());
  numbers_[name] = number;
  bytes.push_back(range->second);
  return number;
}

std::vector<std::string> SplitOperands(const std::string& text) {
  std::vector<std::string> result;
  int depth = 0;
  std::string current;
  for (char c : text) {
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c == ',' && depth == 0) {
      result.push_back(Trimmed(current));
      current.clear();
    } else {
      current += c;
    }
  }
  if (!Trimmed(current).empty()) result.push_back(Trimmed(current));
  return result;
}

Operand ParseOperand(const std::string& text, RegisterNames& names) {
  if (text.empty()) throw Unsupported("an empty operand");
  Operand operand;
  const size_t bar = text.find('|');
  if (text == "_") {
    operand.kind = Operand::Kind::kSink;
  } else if (text[0] == '{') {
    operand.kind = Operand::Kind::kVector;
    for (const auto& part : SplitOperands(text.substr(1, text.size() - 2))) {
      operand.parts.push_back(ParseOperand(part, names));
    }
  } else if (bar != std::string::npos) {
    operand.kind = Operand::Kind::kVector;
    operand.parts = {ParseOperand(Trimmed(text.substr(0, bar)), names),
                     ParseOperand(Trimmed(text.substr(bar + 1)), names)};
  } else if (text[0] == '[') {
    return ParseAddress(text.substr(1, text.size() - 2), names);
  } else if (text[0] == '!') {
    operand = ParseOperand(Trimmed(text.substr(1)), names);
    operand.negated = !operand.negated;
  } else if (std::isdigit(text[0]) || text[0] == '-' || text[0] == '+') {
    return ParseNumber(text);
  } else if (names.Has(text)) {
    operand.kind = Operand::Kind::kRegister;
    operand.index = names.Find(text);
  } else {
    operand.kind = Operand::Kind::kName;
    operand.name = text;
  }
  return operand;
}

}  // namespace ptx
}  // namespace tf_hsm
