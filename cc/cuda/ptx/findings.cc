#include "cc/cuda/ptx/findings.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace tf_hsm {
namespace ptx {
namespace {

// Paths of the project begin at cc/, wherever it was compiled; of other files
// the name is enough.
std::string ShortPath(const std::string& path) {
  if (path.rfind("cc/", 0) == 0) return path;
  const size_t own = path.rfind("/cc/");
  return path.substr((own != std::string::npos ? own : path.rfind('/')) + 1);
}

}  // namespace

std::string Readable(const std::string& name) {
  constexpr size_t kMost = 100;  // characters; CUB's have thousands
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  if (status != 0) return name;
  std::string text = demangled.get();
  // The arguments say nothing that the name does not.
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '<') ++depth;
    if (text[i] == '>') --depth;
    const bool anonymous = text.compare(i, 11, "(anonymous ") == 0;
    if (text[i] == '(' && depth == 0 && !anonymous) text.resize(i);
    if (anonymous) i = text.find(')', i);
  }
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

std::string SourceLine(const Module& module, int file, int line) {
  const auto found = module.files.find(file);
  if (found == module.files.end() || line == 0) return "";
  return ShortPath(found->second) + ":" + std::to_string(line);
}

std::string Where(const Module& module, const Entry& entry, int statement) {
  const Statement& s = entry.statements[statement];
  std::string text = "\"" + s.text + "\" (line " + std::to_string(s.line);
  const std::string place = SourceLine(module, s.source.file, s.source.line);
  if (!place.empty()) text += ", " + place;
  const std::string caller =
      SourceLine(module, s.source.caller_file, s.source.caller_line);
  if (!caller.empty()) text += " from " + caller;
  return text + ") of " + Readable(entry.name);
}

}  // namespace ptx
}  // namespace tf_hsm
