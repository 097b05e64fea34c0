// dW of one group, in blocks and straight to memory, against sums in double:
// of widths that begin rows anywhere in a cache line, in memory that has guards
// before and behind it.

#include <random>
#include <string>
#include <vector>

#include "cc/core/base/isa.h"
#include "cc/core/plan/plan.h"
#include "cc/core/table/kernel_table.h"
#include "cc/core/testing/test_support.h"

namespace tf_hsm {
namespace {

template <typename T>
class Group {
 public:
  using A = Accumulator<T>;

  Group(int64_t rows, int64_t examples, int64_t width, std::mt19937* rng)
      : rows_(rows), examples_(examples), width_(width) {
    const OwnedTree tree = FlatTree(rows);
    for (int64_t m = 0; m < examples; ++m) {
      labels_.push_back(static_cast<int64_t>((*rng)() % rows));
    }
    const std::string error =
        MakePlan(tree.view(), labels_.data(), examples, {}, &plan_);
    Expect(error.empty(), error);
    const std::vector<A> x = Draw<A>(examples * width, 64, rng);
    x_.assign(examples * Padded(width), 0);
    for (int64_t m = 0; m < examples; ++m) {
      for (int64_t d = 0; d < width; ++d) {
        x_[m * Padded(width) + d] = x[plan_.order[m] * width + d];
      }
    }
    probs_ = Draw<A>(examples * rows, 64, rng);
    grads_ = Draw<A>(examples, 64, rng);
    problem_.plan = &plan_;
    problem_.width = width;
    problem_.x = x_.data();
    MakeReference();
  }

  // Rows [begin, end), whose dW begins `shift` numbers behind a cache line.
  // Returns it.
  std::vector<double> Check(Isa isa, int64_t begin, int64_t end, int64_t shift,
                            bool past_cache) const {
    constexpr int64_t kGuard = 64;
    const int64_t count = (end - begin) * width_;
    std::vector<T> memory(kGuard + 16 + count + kGuard, FromDouble<T>(9));
    T* dw = memory.data() + kGuard;
    while (reinterpret_cast<uintptr_t>(dw) % 64 != shift * sizeof(T) % 64) ++dw;
    std::vector<T> db(rows_);
    BackwardArguments<T> args;
    args.loss_grads = grads_.data();
    args.probs = probs_.data();
    args.dw = dw - begin * width_;
    args.db = db.data();
    args.past_cache = past_cache;
    const Slice slice = {0, begin, end, 0};
    KernelTableFor<T>(isa).backward_rows(problem_, &slice, 1, args);

    const std::string what =
        std::string(IsaName(isa)) + " rows " + std::to_string(begin) + " to " +
        std::to_string(end) + " of " + std::to_string(rows_) + ", " +
        std::to_string(examples_) + " examples, width " +
        std::to_string(width_) + ", shift " + std::to_string(shift) +
        (past_cache ? ", past the cache" : "");
    for (int64_t i = 0; i < count; ++i) {
      Near(ToDouble(dw[i]), dw_[begin * width_ + i], kTolerance,
           what + " dw " + std::to_string(i));
    }
    for (const T* p = memory.data(); p < memory.data() + memory.size(); ++p) {
      if (p < dw || p >= dw + count) Expect(ToDouble(*p) == 9, what + " guard");
    }
    for (int64_t k = begin; k < end; ++k) {
      Near(ToDouble(db[k]), db_[k], kTolerance, what + " db");
    }
    return ToDoubles<T>({dw, dw + count});
  }

 private:
  // Half a unit in the last place of bfloat16, or sums in float32.
  static constexpr double kTolerance = sizeof(T) == 2 ? 1.0 / 256 : 1e-5;

  void MakeReference() {
    dw_.assign(rows_ * width_, 0);
    db_.assign(rows_, 0);
    for (int64_t m = 0; m < examples_; ++m) {
      for (int64_t k = 0; k < rows_; ++k) {
        const double y = labels_[plan_.order[m]] == k;
        const double dz = grads_[m] * (probs_[m * rows_ + k] - y);
        db_[k] += dz;
        for (int64_t d = 0; d < width_; ++d) {
          dw_[k * width_ + d] += dz * x_[m * Padded(width_) + d];
        }
      }
    }
  }

  const int64_t rows_, examples_, width_;
  std::vector<int64_t> labels_;
  Plan plan_;
  std::vector<A> x_, probs_, grads_;
  std::vector<double> dw_, db_;
  Problem<T> problem_;
};

template <typename T>
void CheckAll(int64_t rows, int64_t examples, int64_t width,
              std::mt19937* rng) {
  const Group<T> group(rows, examples, width, rng);
  auto check = [&](Isa isa, int64_t begin, int64_t end, int64_t shift) {
    const std::vector<double> cached =
        group.Check(isa, begin, end, shift, false);
    const std::vector<double> streamed =
        group.Check(isa, begin, end, shift, true);
    Expect(cached == streamed, "the same numbers in and past the cache");
  };
  for (Isa isa : SupportedIsas()) {
    check(isa, 0, rows, 0);
    check(isa, rows / 3, rows, 1 + width % 15);
    check(isa, 0, rows - rows / 4, 5);
  }
}

}  // namespace
}  // namespace tf_hsm

int main() {
  using tf_hsm::CheckAll;
  std::mt19937 rng(7);
  for (int64_t width :
       {1, 31, 32, 33, 40, 47, 48, 50, 52, 63, 64, 65, 100, 300, 301, 512}) {
    for (int64_t examples : {1, 7, 9, 32}) {
      CheckAll<float>(103, examples, width, &rng);
    }
  }
  for (int64_t rows : {9, 15, 16, 17, 31, 48, 49, 97}) {
    CheckAll<float>(rows, 5, 44, &rng);
  }
  CheckAll<float>(64, 33, 300, &rng);
  CheckAll<float>(64, 100, 77, &rng);
  CheckAll<double>(50, 9, 44, &rng);
  CheckAll<tf_hsm::bfloat16>(50, 9, 44, &rng);
  CheckAll<tf_hsm::half>(50, 9, 44, &rng);
  return tf_hsm::Summarize();
}
