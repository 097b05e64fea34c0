// Breaks the PTX of kernels, one statement at a time, and expects that a check
// of the kernels fails or that the interpreter finds the mistake.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "cc/cuda/check/cases.h"
#include "cc/cuda/check/loss_case.h"
#include "cc/cuda/check/loss_check.h"
#include "cc/cuda/check/update_check.h"
#include "cc/cuda/ptx/runtime/control.h"

namespace tf_hsm {
namespace gpu {
namespace {

constexpr size_t kNone = std::string::npos;

// The text of the first kernel whose mangled name has these words, as a range.
struct Range {
  size_t begin = kNone, end = kNone;
};

Range FindKernel(const std::string& text, const std::string& words) {
  for (size_t at = text.find(".entry "); at != kNone;) {
    const size_t next = text.find(".entry ", at + 1);
    const size_t name_end = text.find('(', at);
    if (text.substr(at, name_end - at).find(words) != kNone) {
      return {at, std::min(next, text.size())};
    }
    at = next;
  }
  return {};
}

// Calls edit(text, begin, end) for the statements of a kernel that have these
// words: number `n` of them, or all if that is -1. Statements keep their lines.
using StatementEdit = std::function<std::string(const std::string&)>;

ptx::Edit EditStatements(const std::string& kernel, const std::string& words,
                         int n, const StatementEdit& edit, int* count) {
  *count = 0;
  return [=](const std::string& text) {
    const Range range = FindKernel(text, kernel);
    if (range.begin == kNone) return text;
    std::string result = text.substr(0, range.begin);
    size_t at = range.begin;
    for (;;) {
      const size_t found = text.find(words, at);
      if (found == kNone || found >= range.end) break;
      const size_t end = text.find(';', found) + 1;
      result += text.substr(at, found - at);
      const std::string statement = text.substr(found, end - found);
      const bool chosen = n < 0 || *count == n;
      result += chosen ? edit(statement) : statement;
      ++*count;
      at = end;
    }
    return result + text.substr(at);
  };
}

std::string Drop(const std::string&) { return ""; }

// Exchanges the first two registers of operand `operand`: {%r1, %r2, ...}.
StatementEdit ExchangeWords(int operand) {
  return [operand](const std::string& statement) {
    size_t begin = 0;
    for (int i = 0; i <= operand; ++i) begin = statement.find('{', begin) + 1;
    const size_t comma = statement.find(',', begin);
    const size_t end = statement.find_first_of(",}", comma + 1);
    return statement.substr(0, begin) +
           statement.substr(comma + 1, end - comma - 1) + "," +
           statement.substr(begin, comma - begin) + statement.substr(end);
  };
}

StatementEdit Replace(const std::string& from, const std::string& to) {
  return [=](std::string statement) {
    const size_t at = statement.find(from);
    return at == kNone ? statement : statement.replace(at, from.size(), to);
  };
}

CheckCase NamedCaseOf(const std::string& name, Rng* rng) {
  for (const NamedCase& named : SmallCases()) {
    if (name != named.name) continue;
    CheckCase c = named.make(rng);
    c.name = name;
    return c;
  }
  std::fprintf(stderr, "no case %s\n", name.c_str());
  std::exit(EXIT_FAILURE);
}

// Runs the checks of gradients and of updates; returns how many of their lines
// fail, and what the interpreter finds.
struct Outcome {
  int failed = 0;
  std::string found;  // the first finding
};

template <typename T>
Outcome RunChecks(const std::string& name) {
  std::seed_seq seed(name.begin(), name.end());
  Rng rng(seed);
  const CheckCase c = NamedCaseOf(name, &rng);
  LossCase<T> loss(c, Precision::kTensorCores, &rng);
  loss.MakeReference();
  Outcome outcome;
  const int before = num_failed;
  LossCheck<T>(loss).Run();
  UpdateCheck<T>(loss).Run();
  outcome.failed = num_failed - before;
  num_failed = before;
  num_overruns = 0;
  const auto findings = ptx::TakeFindings();
  if (!findings.empty()) outcome.found = findings.begin()->first;
  return outcome;
}

constexpr char kForward[] = "12ForwardLargeINS0_10MmaProductIf";
constexpr char kBackward[] = "13BackwardLargeINS0_10MmaProductIf";
constexpr char kHotLogits[] = "9HotLogitsINS0_6HotMmaIf";
constexpr char kHotRows[] = "7HotRowsINS0_7WideMmaIf";
constexpr char kHotGradients[] = "12HotGradientsINS0_7WideMmaIf";

struct Mutation {
  std::string kernel;  // of its mangled name
  std::string words;   // of the statements
  int n;               // the number of one of these; -1: all together
  StatementEdit edit;
};

// `count` becomes the number of statements that could be edited.
template <typename T>
Outcome RunMutation(const Mutation& m, const std::string& name, int* count) {
  ptx::SetEdit(EditStatements(m.kernel, m.words, m.n, m.edit, count));
  const Outcome outcome = RunChecks<T>(name);
  ptx::SetEdit(nullptr);
  return outcome;
}

int num_mutations = 0, num_unseen = 0;

void Record(bool seen, const std::string& what, const Outcome& outcome) {
  ++num_mutations;
  num_unseen += !seen;
  std::printf("%s %s: %d checks fail; %s\n", seen ? "seen" : "NOT SEEN",
              what.c_str(), outcome.failed, outcome.found.c_str());
}

template <typename T>
void ExpectFailure(const std::string& what, const std::string& name,
                   const Mutation& mutation) {
  int count = 0;
  const Outcome outcome = RunMutation<T>(mutation, name, &count);
  Record(count > 0 && outcome.failed > 0, what, outcome);
}

void ExpectFinding(const std::string& what, const std::string& name,
                   const Mutation& mutation, const std::string& finding) {
  int count = 0;
  const Outcome outcome = RunMutation<float>(mutation, name, &count);
  Record(count > 0 && outcome.found.find(finding) != kNone, what, outcome);
}

void CheckFragments() {
  ExpectFailure<float>("two words of A", "flat",
                       {kForward, "mma.sync", -1, ExchangeWords(1)});
  ExpectFailure<bfloat16>("two words of B", "flat",
                          {"12ForwardLargeINS0_10MmaProductINS_8bfloat16",
                           "mma.sync", -1, ExchangeWords(2)});
  ExpectFailure<half>("two sums", "flat",
                      {"13BackwardLargeINS0_10MmaProductINS_4half", "mma.sync",
                       -1, ExchangeWords(3)});
  ExpectFailure<bfloat16>("matrices not transposed", "hot, in pieces",
                          {"7HotRowsINS0_7WideMmaINS_8bfloat16", "ldmatrix", -1,
                           Replace(".trans", "")});
  ExpectFailure<float>("two matrices", "hot, in pieces",
                       {kHotLogits, "ldmatrix", -1, ExchangeWords(0)});
}

void CheckCopies() {
  const std::string wait = "cp.async.wait_group", late = "may not have reached";
  ExpectFinding("no wait for copies", "flat", {kForward, wait, -1, Drop}, late);
  ExpectFinding("a wait for one copy fewer", "hot, in pieces",
                {kHotLogits, wait, -1,
                 [](const std::string& statement) {
                   return Replace("0;", "1;")(Replace("1;", "2;")(statement));
                 }},
                late);
  ExpectFinding("no commit of copies", "hot, in pieces",
                {kHotGradients, "cp.async.commit_group", -1, Drop}, late);
}

// Drops every barrier of a kernel, one at a time. At most `redundant` of those
// that the case executes may order nothing that another does not.
void CheckBarriers(const std::string& name, const std::string& kernel,
                   int redundant) {
  const std::string barrier = "bar.sync";
  int count = 1, seen = 0, unseen = 0;
  for (int n = 0; n < count; ++n) {
    const std::string what = "barrier " + std::to_string(n) + " of " + kernel;
    const Mutation drop = {kernel, barrier, n, Drop};
    const Outcome outcome = RunMutation<float>(drop, name, &count);
    if (outcome.found.find("a race") != kNone) {
      ++seen;
      Record(true, what, outcome);
      continue;
    }
    const Mutation trap = {kernel, barrier, n,
                           [](const std::string&) { return "trap;"; }};
    const Outcome stopped = RunMutation<float>(trap, name, &count);
    const bool executed = stopped.found.find("stops itself") != kNone;
    unseen += executed;
    std::printf("%s %s\n", what.c_str(),
                executed ? "orders nothing here" : "is not executed");
  }
  std::printf("%s: %d of %d barriers seen, %d redundant\n", kernel.c_str(),
              seen, count, unseen);
  if (seen == 0 || unseen > redundant) ++num_unseen;
}

}  // namespace
}  // namespace gpu
}  // namespace tf_hsm

// --barriers: drops barriers of the tiled kernels instead, which takes minutes.
int main(int argc, char** argv) {
  using namespace tf_hsm::gpu;  // NOLINT
  if (argc > 1 && std::strcmp(argv[1], "--barriers") == 0) {
    CheckBarriers("flat", kForward, 1);
    CheckBarriers("flat", kBackward, 2);
    CheckBarriers("hot, in pieces", kHotLogits, 1);
    CheckBarriers("hot, in pieces", kHotRows, 1);
    CheckBarriers("hot, in pieces", kHotGradients, 1);
  } else {
    CheckFragments();
    CheckCopies();
  }
  std::printf("%d mutations, %d not as expected\n", num_mutations, num_unseen);
  return num_unseen == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
