// Reads the text of PTX as nvcc writes it: directives, declarations, labels
// and statements. Functions and local memory are refused: the kernels have
// none.

#include <algorithm>
#include <cctype>
#include <cstring>
#include <utility>

#include "cc/cuda/ptx/module.h"
#include "cc/cuda/ptx/operands.h"
#include "cc/cuda/ptx/scanner.h"
#include "cc/cuda/ptx/types.h"

namespace tf_hsm {
namespace ptx {
namespace {

// A declaration without its state space: .align 4 .b8 name[12].
struct Declaration {
  std::string name;
  int64_t alignment = 0;
  int64_t element_bytes = 0;
  int64_t bytes = 0;
  bool open = false;  // name[]
};

Declaration Declared(const std::string& text) {
  Declaration result;
  bool pointer = false;
  const std::vector<std::string> words = Words(text);
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == ".ptr") {
      pointer = true;  // the alignment behind it is that of what it points to
    } else if (words[i] == ".align") {
      const int64_t alignment = std::stoll(words[++i]);
      if (!pointer) result.alignment = alignment;
    } else if (words[i][0] == '.') {
      if (const Type* type = FindType(words[i].substr(1))) {
        result.element_bytes = type->bytes;
      }
    } else {
      result.name += words[i];
    }
  }
  result.bytes = result.element_bytes;
  const size_t bracket = result.name.find('[');
  if (bracket != std::string::npos) {
    result.open = result.name[bracket + 1] == ']';
    if (!result.open) {
      result.bytes *= std::stoll(result.name.substr(bracket + 1));
    }
    result.name.resize(bracket);
  }
  if (result.alignment == 0) result.alignment = result.element_bytes;
  if (result.element_bytes == 0) throw Unsupported("declaration " + text);
  return result;
}

class Parser {
 public:
  explicit Parser(const std::string& text) : scanner_(WithoutComments(text)) {}

  Module Run() {
    while (!scanner_.AtEnd()) TopLevel();
    return std::move(module_);
  }

 private:
  void TopLevel() {
    const std::string word = scanner_.Word();
    if (word == ".visible" || word == ".weak" || word == ".extern") return;
    if (word == ".version" || word == ".target" || word == ".address_size") {
      scanner_.Until("\n");
    } else if (word == ".file") {
      const int number = std::stoi(scanner_.Word());
      const std::string rest = scanner_.Until("\n");
      const size_t quote = rest.find('"') + 1;
      module_.files[number] = rest.substr(quote, rest.find('"', quote) - quote);
    } else if (word == ".section") {
      scanner_.Until("}");
      scanner_.Expect('}');
    } else if (word == ".entry") {
      ReadEntry();
    } else if (word == ".shared") {
      const Declaration array = Declared(scanner_.Until(";"));
      if (!array.open) scanner_.Fail("a shared array outside of kernels");
      module_.dynamic_shared = array.name;
      scanner_.Expect(';');
    } else if (word == ".global" || word == ".const") {
      ReadGlobal();
    } else {
      scanner_.Fail("cannot read " + word);
    }
  }

  void ReadGlobal() {
    const Declaration declared = Declared(scanner_.Until("=;"));
    Global global = {declared.name, std::vector<char>(declared.bytes)};
    if (scanner_.Accept('=')) {
      std::string values = scanner_.Until(";");
      std::replace_if(
          values.begin(), values.end(),
          [](char c) { return std::strchr("{},", c) != nullptr; }, ' ');
      int64_t at = 0;
      for (const std::string& value : Words(values)) {
        const uint64_t bits = ParseOperand(value, names_).bits;
        std::memcpy(global.bytes.data() + at, &bits, declared.element_bytes);
        at += declared.element_bytes;
      }
    }
    scanner_.Expect(';');
    module_.globals.push_back(std::move(global));
  }

  void ReadEntry() {
    Entry entry;
    names_ = RegisterNames();
    entry.name = scanner_.Word();
    if (scanner_.Accept('(')) {
      while (!scanner_.Accept(')')) {
        std::string text = scanner_.Until(",)");
        text = text.substr(std::strlen(".param"));
        const Declaration parameter = Declared(text);
        entry.parameters.Add(parameter.name, parameter.bytes,
                             parameter.alignment);
        scanner_.Accept(',');
      }
    }
    const std::string limits = scanner_.Until("{");
    const size_t threads = limits.find(".maxntid");
    if (threads != std::string::npos) {
      entry.max_threads = std::stoi(limits.substr(threads + 8));
    }
    int depth = 0;
    source_ = SourcePosition();
    do {
      if (scanner_.Accept('{')) {
        ++depth;
      } else if (scanner_.Accept('}')) {
        --depth;
      } else if (scanner_.AtEnd()) {
        scanner_.Fail(entry.name + " does not end");
      } else {
        BodyLine(&entry);
      }
    } while (depth > 0);
    entry.registers = names_.bytes;
    const std::string name = entry.name;
    module_.entries[name] = std::move(entry);
  }

  void BodyLine(Entry* entry) {
    const std::string label = scanner_.Label();
    if (!label.empty()) {
      entry->labels[label] = static_cast<int>(entry->statements.size());
      return;
    }
    if (scanner_.Peek() != '.') {
      ReadStatement(entry);
      return;
    }
    const std::string word = scanner_.Word();
    if (word == ".loc") {
      ReadLocation(scanner_.Until("\n"));
      return;
    }
    const std::string rest = scanner_.Until(";");
    scanner_.Expect(';');
    if (word == ".reg") {
      names_.Declare(rest);
    } else if (word == ".shared") {
      const Declaration array = Declared(rest);
      entry->shared.Add(array.name, array.bytes, array.alignment);
    } else if (word != ".pragma") {
      scanner_.Fail(entry->name + " has " + word);
    }
  }

  // 1 18 3, function_name $L__info_string0, inlined_at 1 27 3
  void ReadLocation(std::string text) {
    std::replace(text.begin(), text.end(), ',', ' ');
    const std::vector<std::string> words = Words(text);
    source_ = {std::stoi(words[0]), std::stoi(words[1])};
    for (size_t i = 3; i + 2 < words.size(); ++i) {
      if (words[i] != "inlined_at") continue;
      source_.caller_file = std::stoi(words[i + 1]);
      source_.caller_line = std::stoi(words[i + 2]);
    }
  }

  void ReadStatement(Entry* entry) {
    Statement statement;
    statement.line = scanner_.line();
    statement.source = source_;
    statement.text = scanner_.Until(";");
    scanner_.Expect(';');
    std::string rest = statement.text;
    std::replace_if(
        rest.begin(), rest.end(), [](char c) { return std::isspace(c); }, ' ');
    auto take_word = [&rest] {
      const size_t end = std::min(rest.find(' '), rest.size());
      const std::string word = rest.substr(0, end);
      rest = Trimmed(rest.substr(end));
      return word;
    };
    if (rest[0] == '@') {
      const std::string guard = take_word().substr(1);
      statement.guard_negated = guard[0] == '!';
      statement.guard = names_.Find(guard.substr(statement.guard_negated));
    }
    statement.opcode = take_word();
    for (const std::string& operand : SplitOperands(rest)) {
      statement.operands.push_back(ParseOperand(operand, names_));
    }
    entry->statements.push_back(std::move(statement));
  }

  Scanner scanner_;
  Module module_;
  RegisterNames names_;
  SourcePosition source_;
};

}  // namespace

Module Parse(const std::string& text) { return Parser(text).Run(); }

}  // namespace ptx
}  // namespace tf_hsm
