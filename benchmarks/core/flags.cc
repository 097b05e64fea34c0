#include "benchmarks/core/flags.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <sstream>
#include <thread>  // NOLINT(build/c++11)

namespace tf_hsm {
namespace {

constexpr char kUsage[] =
    "flags, with their defaults:\n"
    "  --classes=1000000 --width=300 --batch=400\n"
    "  --fanout=K   groups of K on as many levels as that takes; 2 is binary\n"
    "  --depth=L    L levels of about equal fanouts; by default two_level\n"
    "  --labels=uniform   or zipf: class c with probability ~ 1 / (c + 1)\n"
    "  --dtype=float32    or float64, bfloat16, float16: of the weights\n"
    "  --pages=both       or huge, small: under the weights\n"
    "  --threads=1,2,...  numbers of threads; doubled up to all CPUs\n"
    "  --isa=...          some of baseline, avx2, avx512, amx; all that run\n"
    "               here\n"
    "  --repetitions=15   turns; figures are medians\n"
    "  --stream_mb=512    memory that the machine's own rates stream through";

// Reads a number of at least `least`.
bool ReadNumber(const std::string& text, int64_t least, int64_t* number) {
  char* end;
  *number = std::strtoll(text.c_str(), &end, 10);
  return !text.empty() && *end == '\0' && *number >= least;
}

std::vector<std::string> Split(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream stream(list);
  for (std::string part; std::getline(stream, part, ',');) {
    parts.push_back(part);
  }
  return parts;
}

bool ReadThreads(const std::string& text, std::vector<int64_t>* threads) {
  threads->clear();
  for (const std::string& part : Split(text)) {
    int64_t count;
    if (!ReadNumber(part, 1, &count)) return false;
    threads->push_back(count);
  }
  return !threads->empty();
}

bool ReadIsas(const std::string& text, std::vector<Isa>* isas) {
  isas->clear();
  for (const std::string& part : Split(text)) {
    bool found = false;
    for (Isa isa : SupportedIsas()) {
      if (part != IsaName(isa)) continue;
      isas->push_back(isa);
      found = true;
    }
    if (!found) return false;
  }
  return !isas->empty();
}

}  // namespace

std::string ReadFlags(int argc, char** argv, Flags* flags) {
  const int64_t cpus = std::max(1u, std::thread::hardware_concurrency());
  for (int64_t count = 1; count < cpus; count *= 2) {
    flags->threads.push_back(count);
  }
  flags->threads.push_back(cpus);

  using Reader = std::function<bool(const std::string&)>;
  auto number = [](int64_t* value, int64_t least) -> Reader {
    return [=](const std::string& t) { return ReadNumber(t, least, value); };
  };
  const std::map<std::string, Reader> readers = {
      {"classes", number(&flags->classes, 2)},
      {"width", number(&flags->width, 1)},
      {"batch", number(&flags->batch, 1)},
      {"fanout", number(&flags->fanout, 2)},
      {"depth", number(&flags->depth, 1)},
      {"repetitions", number(&flags->repetitions, 1)},
      {"stream_mb", number(&flags->stream_mb, 1)},
      {"labels",
       [=](const std::string& t) {
         flags->zipf = t == "zipf";
         return t == "zipf" || t == "uniform";
       }},
      {"dtype",
       [=](const std::string& t) {
         flags->dtype = t;
         return t == "float32" || t == "float64" || t == "bfloat16" ||
                t == "float16";
       }},
      {"pages",
       [=](const std::string& t) {
         if (t == "huge") flags->huge_pages = {true};
         if (t == "small") flags->huge_pages = {false};
         return t == "huge" || t == "small" || t == "both";
       }},
      {"threads",
       [=](const std::string& t) { return ReadThreads(t, &flags->threads); }},
      {"isa", [=](const std::string& t) { return ReadIsas(t, &flags->isas); }},
  };
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = std::min(argument.find('='), argument.size());
    const auto reader = argument.compare(0, 2, "--") == 0
                            ? readers.find(argument.substr(2, equals - 2))
                            : readers.end();
    if (reader == readers.end()) {
      return "there is no flag " + argument + "\n" + kUsage;
    }
    const std::string value =
        argument.substr(std::min(equals + 1, argument.size()));
    if (!reader->second(value)) {
      return argument + " is not a value of this flag here\n" + kUsage;
    }
  }
  if (flags->fanout > 0 && flags->depth > 0) {
    return std::string("--fanout and --depth exclude each other\n") + kUsage;
  }
  return "";
}

}  // namespace tf_hsm
