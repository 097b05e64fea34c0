// The types of PTX, and words of its text.

#ifndef TF_HSM_CC_CUDA_PTX_TYPES_H_
#define TF_HSM_CC_CUDA_PTX_TYPES_H_

#include <sstream>
#include <string>
#include <vector>

namespace tf_hsm {
namespace ptx {

struct Type {
  const char* name;
  int bytes;
  bool is_signed = false;
  bool is_float = false;
};

// Predicates are none of them.
constexpr Type kTypes[] = {{"b8", 1},
                           {"u8", 1},
                           {"s8", 1, true},
                           {"b16", 2},
                           {"u16", 2},
                           {"s16", 2, true},
                           {"f16", 2, false, true},
                           {"b32", 4},
                           {"u32", 4},
                           {"s32", 4, true},
                           {"f32", 4, false, true},
                           {"b64", 8},
                           {"u64", 8},
                           {"s64", 8, true},
                           {"f64", 8, false, true},
                           {"bf16", 2, false, true},
                           {"b128", 16}};

// Null if `name` is none.
inline const Type* FindType(const std::string& name) {
  for (const Type& type : kTypes) {
    if (name == type.name) return &type;
  }
  return nullptr;
}

inline std::string Trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

inline std::vector<std::string> Words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

}  // namespace ptx
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_PTX_TYPES_H_
