// What a step of a rule changes, and the step of the scalar reference.

#ifndef TF_HSM_CC_CORE_TESTING_UPDATE_STATE_H_
#define TF_HSM_CC_CORE_TESTING_UPDATE_STATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/testing/reference.h"
#include "cc/core/testing/test_support.h"
#include "cc/core/update/update.h"

namespace tf_hsm {

constexpr Hyperparameters kHyper = {0.125, 0.75, 0.875, 0.01};

inline int64_t SlotWidth(UpdateRule rule, int64_t width) {
  return TraitsOf(rule).slots_per_row ? 1 : width;
}

// `A` is double for the reference.
template <typename T, typename A = Accumulator<T>>
struct State {
  std::vector<T> w, b;
  std::vector<A> w_slots[kMaxSlots], b_slots[kMaxSlots];
  double decay = 0, bias_decay = 0;
};

template <typename T, typename A = Accumulator<T>>
State<T, A> MakeState(UpdateRule rule, int64_t rows, int64_t width,
                      const std::vector<T>& w, const std::vector<T>& b) {
  State<T, A> state;
  state.w = w;
  state.b = b;
  for (int s = 0; s < NumSlots(rule); ++s) {
    state.w_slots[s].assign(rows * SlotWidth(rule, width), 0.5);
    state.b_slots[s].assign(b.size(), 0.5);
  }
  return state;
}

template <typename T>
bool SameState(const State<T>& a, const State<T>& b) {
  bool same = SameBits(a.w, b.w) && SameBits(a.b, b.b);
  for (int s = 0; s < kMaxSlots; ++s) {
    same = same && SameBits(a.w_slots[s], b.w_slots[s]) &&
           SameBits(a.b_slots[s], b.b_slots[s]);
  }
  return same;
}

// What a step by the rule changes: the state.
template <typename T>
Update<T> UpdateOf(UpdateRule rule, State<T>* state) {
  Update<T> update;
  update.rule = rule;
  update.hyper = kHyper;
  update.decay = state->decay;
  update.bias_decay = state->bias_decay;
  update.weights = state->w.data();
  update.biases = state->b.empty() ? nullptr : state->b.data();
  for (int s = 0; s < NumSlots(rule); ++s) {
    update.weight_slots[s] = state->w_slots[s].data();
    update.bias_slots[s] = state->b_slots[s].data();
  }
  return update;
}

// Applies the rule to the touched rows, in double: dw [rows, width], db [rows].
inline void ReferenceUpdateRows(const std::vector<bool>& touched,
                                const std::vector<double>& dw,
                                const std::vector<double>& db, int64_t width,
                                UpdateRule rule, State<double>* state) {
  for (int64_t r = 0; r < static_cast<int64_t>(touched.size()); ++r) {
    if (!touched[r]) continue;
    double mean_square = 0;
    for (int64_t d = 0; d < width; ++d) {
      mean_square += dw[r * width + d] * dw[r * width + d] / width;
    }
    double slots[kMaxSlots];
    const int64_t slot_width = SlotWidth(rule, width);
    for (int64_t d = 0; d < width; ++d) {
      const int64_t at = r * slot_width + (slot_width == 1 ? 0 : d);
      for (int s = 0; s < NumSlots(rule); ++s) slots[s] = state->w_slots[s][at];
      double& value = state->w[r * width + d];
      value = ReferenceUpdate(rule, kHyper, dw[r * width + d], mean_square,
                              value, slots, state->decay);
      // A slot of a whole row moves once.
      if (slot_width == 1 && d + 1 < width) continue;
      for (int s = 0; s < NumSlots(rule); ++s) state->w_slots[s][at] = slots[s];
    }
    if (state->b.empty()) continue;
    for (int s = 0; s < NumSlots(rule); ++s) slots[s] = state->b_slots[s][r];
    state->b[r] = ReferenceUpdate(rule, kHyper, db[r], db[r] * db[r],
                                  state->b[r], slots, state->bias_decay);
    for (int s = 0; s < NumSlots(rule); ++s) state->b_slots[s][r] = slots[s];
  }
}

template <typename T>
void NearState(const State<T>& got, const State<double>& want, UpdateRule rule,
               double tolerance, double of_slots, const std::string& name) {
  NearAll(got.w, want.w, tolerance, name + " weights");
  NearAll(got.b, want.b, tolerance, name + " biases");
  for (int s = 0; s < NumSlots(rule); ++s) {
    NearAll(got.w_slots[s], want.w_slots[s], of_slots, name + " slots");
    NearAll(got.b_slots[s], want.b_slots[s], of_slots, name + " bias slots");
  }
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_TESTING_UPDATE_STATE_H_
