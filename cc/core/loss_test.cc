// Every ISA and element type against the scalar reference, on random trees and
// ragged sizes; and the same bits whatever the order in which items run.

#include "cc/core/loss.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/reference.h"

namespace tf_hsm {
namespace {

struct OwnedTree {
  std::vector<int64_t> offsets = {0}, parents, class_rows, row_groups, ranks;
  TreeView view() const {
    return {static_cast<int64_t>(class_rows.size()),
            static_cast<int64_t>(row_groups.size()),
            static_cast<int64_t>(parents.size()),
            offsets.data(),
            parents.data(),
            class_rows.data(),
            row_groups.data(),
            ranks.data()};
  }
};

// A breadth-first tree of `groups` groups with fanouts drawn from [1, most];
// `inner` is the chance that a row has a group below it.
OwnedTree RandomTree(int groups, int most, double inner, std::mt19937* rng) {
  OwnedTree tree;
  std::vector<int64_t> child;  // row -> group below, or -1
  std::uniform_real_distribution<double> uniform(0, 1);
  int64_t waiting = 1;  // groups promised to rows
  for (int64_t g = 0; g < waiting; ++g) {
    if (g == 0) tree.parents.push_back(-1);
    const int64_t fanout = 1 + static_cast<int64_t>((*rng)() % most);
    for (int64_t k = 0; k < fanout; ++k) {
      const int64_t row = child.size();
      const bool last_chance = g + 1 == waiting && k + 1 == fanout;
      const bool grows =
          waiting < groups && (uniform(*rng) < inner || last_chance);
      child.push_back(grows ? waiting++ : -1);
      if (grows) tree.parents.push_back(row);
      tree.row_groups.push_back(g);
    }
    tree.offsets.push_back(child.size());
  }
  // Leaves get shuffled classes; depth-first ranks from an explicit stack.
  std::vector<int64_t> leaves;
  for (size_t r = 0; r < child.size(); ++r) {
    if (child[r] < 0) leaves.push_back(r);
  }
  std::shuffle(leaves.begin(), leaves.end(), *rng);
  tree.class_rows = leaves;
  std::vector<int64_t> row_class(child.size(), -1);
  for (size_t c = 0; c < leaves.size(); ++c) row_class[leaves[c]] = c;
  tree.ranks.resize(leaves.size());
  int64_t rank = 0;
  std::vector<int64_t> stack;
  for (int64_t r = tree.offsets[1]; r-- > 0;) stack.push_back(r);
  while (!stack.empty()) {
    const int64_t row = stack.back();
    stack.pop_back();
    if (child[row] < 0) {
      tree.ranks[row_class[row]] = rank++;
      continue;
    }
    const int64_t g = child[row];
    for (int64_t r = tree.offsets[g + 1]; r-- > tree.offsets[g];) {
      stack.push_back(r);
    }
  }
  return tree;
}

template <typename T>
T FromDouble(double value) {
  return static_cast<T>(value);
}
template <>
bfloat16 FromDouble(double value) {
  const float rounded = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &rounded, sizeof(bits));
  return {static_cast<uint16_t>(bits >> 16)};
}
// Exact for the multiples of 1/64 below 16 that the test draws.
template <>
half FromDouble(double value) {
  if (value == 0) return {0};
  int exponent;
  const double mantissa = std::frexp(std::fabs(value), &exponent);
  const int bits = static_cast<int>(mantissa * 2048) - 1024;
  return {static_cast<uint16_t>((value < 0 ? 0x8000 : 0) |
                                ((exponent + 14) << 10) | bits)};
}
double ToDouble(double value) { return value; }
double ToDouble(float value) { return value; }
double ToDouble(bfloat16 value) {
  const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}
double ToDouble(half value) {
  const int exponent = (value.bits >> 10) & 31;
  const int mantissa = value.bits & 1023;
  const double magnitude = exponent == 0
                               ? std::ldexp(mantissa, -24)
                               : std::ldexp(1024 + mantissa, exponent - 25);
  return value.bits & 0x8000 ? -magnitude : magnitude;
}

void Reversed(int64_t count, const std::function<void(int64_t)>& work) {
  for (int64_t i = count; i-- > 0;) work(i);
}

int failures = 0;
int checks = 0;

void Near(double got, double want, double tolerance, const std::string& what) {
  ++checks;
  if (std::fabs(got - want) <= tolerance * (1 + std::fabs(want))) return;
  if (++failures < 20) {
    std::printf("FAILED %s: got %.9g, want %.9g\n", what.c_str(), got, want);
  }
}

struct Case {
  int batch;
  int width;
  int groups;
  int most;
  double inner;
};

template <typename T>
struct Outputs {
  using A = Accumulator<T>;
  std::vector<A> loss, dx, normalizers, probs;
  std::vector<T> dw, db;
};

template <typename T>
Outputs<T> Run(const Problem<T>& problem, Isa isa, const Parallel& parallel,
               int64_t batch, const std::vector<Accumulator<T>>& grads,
               bool keep) {
  const Plan& plan = *problem.plan;
  Outputs<T> out;
  out.loss.assign(batch, 0);
  out.dx.assign(batch * problem.width, 0);
  out.normalizers.assign(2 * plan.num_passes, NAN);
  out.probs.assign(keep ? plan.num_probs : 0, NAN);
  Forward<T>(problem, KernelsFor<T>(isa), parallel,
             {out.loss.data(), out.dx.data(), out.normalizers.data(),
              keep ? out.probs.data() : nullptr});
  out.dw.resize(plan.num_rows * problem.width);
  out.db.resize(plan.num_rows);
  Backward<T>(
      problem, KernelsFor<T>(isa), parallel,
      {grads.data(), out.normalizers.data(), keep ? out.probs.data() : nullptr,
       out.dw.data(), out.db.data()});
  return out;
}

template <typename A>
bool SameBits(const std::vector<A>& a, const std::vector<A>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(A)) == 0;
}

// `store` is the rounding of a stored T, `sum` that of its accumulator.
template <typename T>
void Check(const Case& c, Isa isa, double store, double sum, bool with_bias,
           const std::string& name, std::mt19937* rng) {
  using A = Accumulator<T>;
  const OwnedTree owned = RandomTree(c.groups, c.most, c.inner, rng);
  const TreeView tree = owned.view();
  auto draw = [&](size_t count, int range) {
    std::vector<T> values(count);
    for (T& v : values) {
      v = FromDouble<T>((static_cast<int>((*rng)() % (2 * range)) - range) /
                        64.0);
    }
    return values;
  };
  const std::vector<T> w = draw(tree.num_rows * c.width, 32);
  const std::vector<T> b = draw(tree.num_rows, 64);
  const std::vector<T> x = draw(c.batch * c.width, 64);
  std::vector<int64_t> labels(c.batch);
  for (int64_t& label : labels) label = (*rng)() % (tree.num_classes + 1) - 1;

  Plan plan;
  const std::string error = MakePlan(tree, labels.data(), c.batch, {-1}, &plan);
  if (!error.empty()) {
    std::printf("FAILED plan: %s\n", error.c_str());
    ++failures;
    return;
  }
  std::vector<A> sorted(plan.num_examples() * Padded(c.width));
  SortInputs(plan, x.data(), c.width, Serial, sorted.data());
  std::vector<A> grads(plan.num_examples());
  for (size_t i = 0; i < grads.size(); ++i) grads[i] = 0.5 + 0.25 * (i % 3);
  const Problem<T> problem = {&plan, c.width, w.data(),
                              with_bias ? b.data() : nullptr, sorted.data()};
  const Outputs<T> out = Run<T>(problem, isa, Serial, c.batch, grads, true);
  const Outputs<T> again = Run<T>(problem, isa, Reversed, c.batch, grads, true);
  const Outputs<T> remade = Run<T>(problem, isa, Serial, c.batch, grads, false);
  ++checks;
  if (!SameBits(out.loss, again.loss) || !SameBits(out.dx, again.dx) ||
      !SameBits(out.dw, again.dw) || !SameBits(out.db, again.db) ||
      !SameBits(out.loss, remade.loss) || !SameBits(out.dx, remade.dx)) {
    std::printf("FAILED %s: the order of items changes the bits\n",
                name.c_str());
    ++failures;
  }

  auto doubles = [](const std::vector<T>& values) {
    std::vector<double> result;
    for (T v : values) result.push_back(ToDouble(v));
    return result;
  };
  const std::vector<double> w64 = doubles(w), b64 = doubles(b);
  const std::vector<double> x64 = doubles(x);
  std::vector<double> dw(w.size()), db(b.size()), dx(x.size());
  std::vector<double> loss(c.batch);
  for (int64_t at = 0; at < plan.num_examples(); ++at) {
    const int64_t i = plan.order[at];
    std::vector<double> unit(c.width);
    loss[i] = ReferenceLoss(tree, c.width, w64.data(),
                            with_bias ? b64.data() : nullptr,
                            x64.data() + i * c.width, labels[i], grads[at],
                            nullptr, dw.data(), db.data());
    ReferenceLoss(tree, c.width, w64.data(), with_bias ? b64.data() : nullptr,
                  x64.data() + i * c.width, labels[i], 1,
                  dx.data() + i * c.width, nullptr, nullptr);
  }
  // A logit sums `width` products below 1/2; a path adds `depth` terms.
  int64_t depth = 1;
  for (const Node& node : plan.nodes) depth = std::max(depth, node.depth + 1);
  const double tolerance = sum * (4 * c.width + 64) * depth;
  for (int i = 0; i < c.batch; ++i) {
    Near(out.loss[i], loss[i], tolerance, name + " loss");
  }
  for (size_t i = 0; i < dx.size(); ++i) {
    Near(out.dx[i], dx[i], tolerance, name + " dx");
  }
  std::vector<int64_t> rows(plan.num_rows);
  TouchedRows(plan, rows.data());
  std::vector<bool> touched(tree.num_rows);
  const double total = tolerance * c.batch + store;
  for (int64_t i = 0; i < plan.num_rows; ++i) {
    if (i > 0 && rows[i] <= rows[i - 1]) ++failures;
    touched[rows[i]] = true;
    Near(ToDouble(out.db[i]), db[rows[i]], total, name + " db");
    for (int d = 0; d < c.width; ++d) {
      const double want = dw[rows[i] * c.width + d];
      Near(ToDouble(out.dw[i * c.width + d]), want, total, name + " dw");
      Near(ToDouble(remade.dw[i * c.width + d]), want, total,
           name + " remade dw");
    }
  }
  for (int64_t r = 0; r < tree.num_rows; ++r) {
    if (!touched[r]) Near(db[r], 0, 0, name + " untouched row");
  }
}

}  // namespace
}  // namespace tf_hsm

int main() {
  using namespace tf_hsm;  // NOLINT
  std::mt19937 rng(1);
  const Case cases[] = {
      {1, 1, 1, 1, 0},      {1, 3, 1, 300, 0},      {5, 16, 3, 4, 0.5},
      {33, 17, 40, 9, 0.3}, {252, 50, 20, 90, 0.1}, {123, 64, 300, 2, 0.9},
      {70, 100, 60, 13, 1}, {9, 131, 200, 1, 1},    {400, 7, 5, 200, 0.05},
      {0, 5, 3, 3, 0.5},    {6, 5000, 3, 12, 0.2}};
  for (Isa isa : SupportedIsas()) {
    for (const Case& c : cases) {
      for (bool bias : {false, true}) {
        const std::string name = std::string(IsaName(isa)) +
                                 " B=" + std::to_string(c.batch) +
                                 " D=" + std::to_string(c.width) + " ";
        const double f32 = std::ldexp(1.0, -24), f64 = std::ldexp(1.0, -53);
        Check<double>(c, isa, f64, f64, bias, name + "double", &rng);
        Check<float>(c, isa, f32, f32, bias, name + "float", &rng);
        Check<bfloat16>(c, isa, std::ldexp(1.0, -8), f32, bias,
                        name + "bfloat16", &rng);
        Check<half>(c, isa, std::ldexp(1.0, -11), f32, bias, name + "half",
                    &rng);
      }
    }
    std::printf("%s: done\n", IsaName(isa));
  }
  std::printf("%d checks, %d failed\n", checks, failures);
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
