// The inner loops of the clustering, against sums in double precision.

#include "cc/core/clustering/point_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "cc/core/testing/test_support.h"

namespace tf_hsm {
namespace {

constexpr int64_t kStride = 80;

void CheckKernels(Isa isa, int64_t count, std::mt19937* rng) {
  const PointKernels& kernels = PointKernelsFor(isa);
  const std::string what = std::string(IsaName(isa)) + " kernels ";
  const auto rows = Draw<float>(count * kStride, 64, rng);
  const auto direction = Draw<float>(kStride, 64, rng);
  auto at = [&](int64_t i, int64_t k) { return rows[i * kStride + k]; };
  std::vector<double> products(count);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t k = 0; k < kStride; ++k) {
      products[i] += double{at(i, k)} * direction[k];
    }
  }
  std::vector<float> scores(count);
  kernels.project(rows.data(), count, kStride, direction.data(), scores.data());
  const auto first = Draw<float>(kStride, 64, rng);
  auto projected = first, sums = first, some = first;
  kernels.add_projected(rows.data(), count, kStride, direction.data(),
                        projected.data());
  kernels.add_rows(rows.data(), count, kStride, nullptr, 1, sums.data());
  std::vector<int64_t> places;
  for (int64_t i = 0; i < count; ++i) {
    if ((*rng)() % 2 == 0) places.push_back(i);
  }
  kernels.add_rows(rows.data(), places.size(), kStride, places.data(), -2,
                   some.data());
  auto less = rows;
  kernels.subtract(less.data(), count, kStride, direction.data());
  for (int64_t k = 0; k < kStride; ++k) {
    double weighted = first[k], sum = first[k], part = first[k];
    for (int64_t i = 0; i < count; ++i) {
      weighted += products[i] * at(i, k);
      sum += at(i, k);
      Near(less[i * kStride + k], at(i, k) - direction[k], 0,
           what + "subtract");
    }
    for (int64_t i : places) part -= 2.0 * at(i, k);
    Near(projected[k], weighted, 1e-4, what + "add_projected");
    Near(sums[k], sum, 1e-6, what + "add_rows");
    Near(some[k], part, 1e-6, what + "add_rows at places");
  }
  std::vector<int32_t> keys(count);
  int32_t least, most;
  if (count > 1) scores[count / 2] = -0.0f;
  kernels.keys(scores.data(), count, keys.data(), &least, &most);
  Expect(least == *std::min_element(keys.begin(), keys.end()), what + "least");
  Expect(most == *std::max_element(keys.begin(), keys.end()), what + "most");
  std::vector<uint8_t> marks(count, 7);
  for (int64_t i = 0; i < count; ++i) {
    const bool has_product = count == 1 || i != count / 2;
    if (has_product) Near(scores[i], products[i], 1e-5, what + "project");
    int64_t larger = 0;
    for (int64_t j = 0; j < count; ++j) {
      Expect((keys[i] > keys[j]) == (scores[i] > scores[j]), what + "keys");
      larger += scores[j] > scores[i];
    }
    Expect(kernels.mark(keys.data(), count, keys[i], nullptr) == larger,
           what + "count");
    Expect(kernels.mark(keys.data(), count, keys[i], marks.data()) == larger,
           what + "mark");
    for (int64_t j = 0; j < count; ++j) {
      Expect(marks[j] == (scores[j] > scores[i]), what + "marks");
    }
  }
  std::vector<float> a(kStride, float{INFINITY}), b(kStride);
  for (int64_t i = 0; i < count; ++i) {
    a[(*rng)() % kStride] = static_cast<float>((*rng)() % 3);
    b[(*rng)() % kStride] = float{INFINITY};
    int64_t nearest = 0;
    for (int64_t k = 0; k < kStride; ++k) {
      if (a[k] + b[k] < a[nearest] + b[nearest]) nearest = k;
    }
    Expect(kernels.nearest(a.data(), b.data(), kStride) == nearest,
           what + "nearest");
  }
}

}  // namespace
}  // namespace tf_hsm

int main() {
  std::mt19937 rng(1);
  for (tf_hsm::Isa isa : tf_hsm::SupportedIsas()) {
    for (int64_t count = 1; count < 40; ++count) {
      tf_hsm::CheckKernels(isa, count, &rng);
    }
  }
  return tf_hsm::Summarize();
}
