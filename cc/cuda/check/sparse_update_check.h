// Checks the update of rows that a gradient names, by every rule.

#ifndef TF_HSM_CC_CUDA_CHECK_SPARSE_UPDATE_CHECK_H_
#define TF_HSM_CC_CUDA_CHECK_SPARSE_UPDATE_CHECK_H_

#include <cmath>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "cc/core/testing/update_state.h"
#include "cc/cuda/api/sparse_update.h"
#include "cc/cuda/check/check_support.h"

namespace tf_hsm::gpu {

// A gradient of a matrix: rows that repeat, one of them often, and some that
// are not there.
template <typename T>
struct SparseCase {
  using A = Accumulator<T>;

  SparseCase(int64_t the_rows, int64_t the_width, int64_t count,
             std::mt19937* rng)
      : rows(the_rows),
        width(the_width),
        w(Draw<T>(rows * width, 32, rng)),
        values(Draw<A>(count * width, 64, rng)) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = static_cast<int64_t>((*rng)() % rows);
      indices.push_back(i % 3 == 0     ? rows / 2
                        : i % 17 == 10 ? rows
                        : i % 17 == 11 ? -1
                                       : row);
    }
  }

  // In `seed`'s rounding, if it is not 0.
  State<T> Run(UpdateRule rule, bool decays, bool narrow, uint64_t seed,
               std::string* error) const {
    State<T> state = MakeState<T>(rule, rows, width, w, {});
    const DeviceArray<T> weights(w);
    const DeviceArray<A> slots[] = {DeviceArray<A>(state.w_slots[0]),
                                    DeviceArray<A>(state.w_slots[1]),
                                    DeviceArray<A>(state.w_slots[2])};
    const DeviceArray<Hyperparameters> hyper({kHyper});
    const DeviceArray<double> decay(std::vector<double>{kDecay});
    const DeviceArray<uint64_t> seeds(std::vector<uint64_t>{seed});
    const DeviceArray<int64_t> wide_rows(indices);
    const DeviceArray<int32_t> narrow_rows(
        std::vector<int32_t>(indices.begin(), indices.end()));
    const DeviceArray<A> gradient(values);
    DeviceUpdate<T> update;
    update.rule = rule;
    update.hyper = hyper.data();
    if (decays) update.decays = decay.data();
    update.weights = weights.data();
    for (int s = 0; s < NumSlots(rule); ++s) {
      update.weight_slots[s] = slots[s].data();
    }
    update.stochastic = seed != 0;
    update.seed = seeds.data();
    const auto count = static_cast<int64_t>(indices.size());
    const DeviceBlock scratch(SparseUpdateBytes(count, rows));
    const SparseGradient<T> given = {
        narrow ? static_cast<const void*>(narrow_rows.data())
               : static_cast<const void*>(wide_rows.data()),
        !narrow,
        count,
        gradient.data(),
        rows,
        width};
    *error += SparseUpdate(given, update, scratch.data(), CheckStream());
    state.w = weights.Download();
    for (int s = 0; s < NumSlots(rule); ++s) {
      state.w_slots[s] = slots[s].Download();
    }
    return state;
  }

  State<double> Want(UpdateRule rule, bool decays) const {
    std::vector<double> sums(rows * width);
    std::vector<bool> touched(rows);
    for (size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] < 0 || indices[i] >= rows) continue;
      touched[indices[i]] = true;
      for (int64_t d = 0; d < width; ++d) {
        sums[indices[i] * width + d] += ToDouble(values[i * width + d]);
      }
    }
    State<double> want = MakeState<double>(rule, rows, width, ToDoubles(w), {});
    if (decays) want.decay = kDecay;
    ReferenceUpdateRows(touched, sums, {}, width, rule, &want);
    return want;
  }

  static constexpr double kDecay = 0.03125;

  const int64_t rows, width;
  const std::vector<T> w;
  const std::vector<A> values;
  std::vector<int64_t> indices;
};

template <typename T>
void CheckSparseRule(const SparseCase<T>& c, UpdateRule rule, bool decays) {
  std::string error;
  const State<T> got = c.Run(rule, decays, false, 0, &error);
  const State<T> again = c.Run(rule, decays, true, 0, &error);
  const State<double> want = c.Want(rule, decays);
  const double count = static_cast<double>(c.indices.size());
  Errors weights, slots;
  weights.AddAll(got.w, want.w);
  for (int s = 0; s < NumSlots(rule); ++s) {
    slots.AddAll(got.w_slots[s], want.w_slots[s]);
  }
  const auto [store, sum] = RoundingOf<T>();
  const bool same = SameState(got, again);
  Line(LineName<T>("rows", c.indices.size(), c.width, Precision::kExact,
                   TraitsOf(rule).name + std::string(decays ? ", decay" : "")),
       error.empty() && same &&
           weights.worst <= store + sum * (16 + 2 * count) &&
           slots.worst <= sum * (16 + 4 * count + c.width),
       error + TextOf({{"w", weights}, {"slots", slots}}) +
           (same ? "" : "two runs differ"));
}

// A rounding at random gives a neighbour of what rounding in double would, the
// same for the same seed.
inline void CheckSparseRounding(const SparseCase<bfloat16>& c) {
  std::string error;
  const UpdateRule rule = UpdateRule::kSgd;
  const State<bfloat16> got = c.Run(rule, false, false, 7, &error);
  const State<bfloat16> again = c.Run(rule, false, false, 7, &error);
  const State<bfloat16> other = c.Run(rule, false, false, 8, &error);
  const std::vector<double> want = c.Want(rule, false).w;
  int64_t wrong = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double spacing = std::ldexp(std::fabs(want[i]), -7) + 1e-6;
    wrong += std::fabs(ToDouble(got.w[i]) - want[i]) > spacing;
  }
  WrongLine(LineName<bfloat16>("rows", c.indices.size(), c.width,
                               Precision::kExact, "stochastic rounding"),
            error,
            wrong + !SameBits(got.w, again.w) + SameBits(got.w, other.w));
}

inline void CheckSparseUpdates(std::mt19937* rng) {
  ForEachType([&](auto zero, const char*) {
    using T = decltype(zero);
    for (const auto& [rows, width, count] :
         {std::tuple{1, 1, 1}, {9, 3, 70}, {41, 36, 100}, {70, 130, 300}}) {
      const SparseCase<T> c(rows, width, count, rng);
      for (const RuleTraits& traits : kUpdateRules) {
        CheckSparseRule(c, traits.rule, false);
      }
      CheckSparseRule(c, UpdateRule::kRowwiseAdagrad, true);
      CheckSparseRule(c, UpdateRule::kAdam, true);
    }
  });
  CheckSparseRounding(SparseCase<bfloat16>(41, 36, 100, rng));
  CheckSparseRounding(SparseCase<bfloat16>(41, 37, 100, rng));
  const SparseCase<float> none(5, 3, 0, rng);
  CheckSparseRule(none, UpdateRule::kAdam, false);
  constexpr int64_t kMost = kMaxUpdatedRowBytes / sizeof(float);
  const SparseCase<float> widest(2, kMost, 5, rng);
  CheckSparseRule(widest, UpdateRule::kRowwiseAdagrad, false);
  const SparseCase<double> wide(2, kMost / 2, 5, rng);
  CheckSparseRule(wide, UpdateRule::kAdam, false);
  // Wider than the shared memory of a block has room for.
  std::string error;
  SparseCase<float>(1, kMost + 1, 1, rng)
      .Run(UpdateRule::kSgd, false, false, 0, &error);
  Line("rows too wide", error.find("at most 10240") != std::string::npos,
       error);
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_CHECK_SPARSE_UPDATE_CHECK_H_
