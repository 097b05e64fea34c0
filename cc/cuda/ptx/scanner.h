// Reads the text of a module piece by piece, and counts its lines.

#ifndef TF_HSM_CC_CUDA_PTX_SCANNER_H_
#define TF_HSM_CC_CUDA_PTX_SCANNER_H_

#include <algorithm>
#include <cctype>
#include <cstring>
#include <string>
#include <utility>

#include "cc/cuda/ptx/module.h"
#include "cc/cuda/ptx/types.h"

namespace tf_hsm {
namespace ptx {

// The text without comments; lines keep their numbers.
inline std::string WithoutComments(std::string text) {
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] != '/') continue;
    const char* end = text[i + 1] == '/'   ? "\n"
                      : text[i + 1] == '*' ? "*/"
                                           : nullptr;
    if (end == nullptr) continue;
    const size_t after = std::min(text.find(end, i + 2), text.size());
    for (; i < after; ++i) {
      if (text[i] != '\n') text[i] = ' ';
    }
    for (size_t k = 0; end[0] == '*' && k < 2 && i < text.size(); ++k) {
      text[i++] = ' ';
    }
  }
  return text;
}

class Scanner {
 public:
  explicit Scanner(std::string text) : text_(std::move(text)) {}

  bool AtEnd() {
    SkipSpace();
    return at_ >= text_.size();
  }
  char Peek() {
    SkipSpace();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Accept(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  void Expect(char c) {
    if (!Accept(c)) Fail(std::string("expected ") + c);
  }
  // The text before any of `ends`, or before the end.
  std::string Until(const char* ends) {
    SkipSpace();
    const size_t end = std::min(text_.find_first_of(ends, at_), text_.size());
    std::string result = text_.substr(at_, end - at_);
    line_ += std::count(result.begin(), result.end(), '\n');
    at_ = end;
    return Trimmed(result);
  }
  std::string Word() { return Until(" \t\r\n,;(){}[]=:"); }
  // The name of a label at this place, or nothing.
  std::string Label() {
    SkipSpace();
    size_t end = at_;
    while (end < text_.size() && (std::isalnum(text_[end]) ||
                                  std::strchr("$_", text_[end]) != nullptr)) {
      ++end;
    }
    if (end == at_ || end >= text_.size() || text_[end] != ':') return "";
    const std::string label = text_.substr(at_, end - at_);
    at_ = end + 1;
    return label;
  }
  int line() {
    SkipSpace();
    return line_;
  }
  [[noreturn]] void Fail(const std::string& why) const {
    throw Unsupported("line " + std::to_string(line_) + ": " + why);
  }

 private:
  void SkipSpace() {
    for (; at_ < text_.size() && std::isspace(text_[at_]); ++at_) {
      line_ += text_[at_] == '\n';
    }
  }

  const std::string text_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace ptx
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_PTX_SCANNER_H_
