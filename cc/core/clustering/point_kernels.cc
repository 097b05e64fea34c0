#include "cc/core/clustering/point_kernels.h"

#include "cc/core/simd/vector-inl.h"

namespace tf_hsm {
namespace TF_HSM_ISA {
namespace {

// Four rows, or the last row four times.
struct FourRows {
  const float *a, *b, *c, *d;
};

TF_HSM_INLINE FourRows RowsFrom(const float* rows, int64_t i, int64_t count,
                                int64_t stride) {
  auto row = [&](int64_t k) __attribute__((always_inline)) {
    return rows + (k < count ? k : count - 1) * stride;
  };
  return {row(i), row(i + 1), row(i + 2), row(i + 3)};
}

TF_HSM_INLINE VectorN<float, 4> Products(const FourRows& rows, int64_t stride,
                                         const float* direction) {
  Floats a = {}, b = {}, c = {}, d = {};
  for (int64_t k = 0; k < stride; k += kFloatLanes) {
    const Floats v = Load(direction + k);
    a += Load(rows.a + k) * v;
    b += Load(rows.b + k) * v;
    c += Load(rows.c + k) * v;
    d += Load(rows.d + k) * v;
  }
  return SumLanes<float>(a, b, c, d);
}

void Project(const float* rows, int64_t count, int64_t stride,
             const float* direction, float* scores) {
  for (int64_t i = 0; i < count; i += 4) {
    const VectorN<float, 4> products =
        Products(RowsFrom(rows, i, count, stride), stride, direction);
    const int64_t here = count - i < 4 ? count - i : 4;
    for (int64_t k = 0; k < here; ++k) scores[i + k] = products[k];
  }
}

void AddProjected(const float* rows, int64_t count, int64_t stride,
                  const float* direction, float* sums) {
  for (int64_t i = 0; i < count; i += 4) {
    const FourRows four = RowsFrom(rows, i, count, stride);
    VectorN<float, 4> products = Products(four, stride, direction);
    for (int64_t k = count - i; k < 4; ++k) products[k] = 0;
    for (int64_t k = 0; k < stride; k += kFloatLanes) {
      Store(sums + k, Load(sums + k) +
                          (Load(four.a + k) * products[0] +
                           Load(four.b + k) * products[1]) +
                          (Load(four.c + k) * products[2] +
                           Load(four.d + k) * products[3]));
    }
  }
}

void AddRows(const float* rows, int64_t count, int64_t stride,
             const int64_t* places, float factor, float* sums) {
  auto row = [&](int64_t i) __attribute__((always_inline)) {
    return rows + (places == nullptr ? i : places[i]) * stride;
  };
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const float *a = row(i), *b = row(i + 1), *c = row(i + 2), *d = row(i + 3);
    for (int64_t k = 0; k < stride; k += kFloatLanes) {
      const Floats sum =
          (Load(a + k) + Load(b + k)) + (Load(c + k) + Load(d + k));
      Store(sums + k, Load(sums + k) + sum * factor);
    }
  }
  for (; i < count; ++i) {
    for (int64_t k = 0; k < stride; k += kFloatLanes) {
      Store(sums + k, Load(sums + k) + Load(row(i) + k) * factor);
    }
  }
}

void Subtract(float* rows, int64_t count, int64_t stride, const float* vector) {
  for (int64_t i = 0; i < count; ++i) {
    float* row = rows + i * stride;
    for (int64_t k = 0; k < stride; k += kFloatLanes) {
      Store(row + k, Load(row + k) - Load(vector + k));
    }
  }
}

void Keys(const float* scores, int64_t count, int32_t* keys, int32_t* least,
          int32_t* most) {
  int32_t low = INT32_MAX, high = INT32_MIN;
  for (int64_t i = 0; i < count; ++i) {
    const float score = scores[i] + 0.0f;  // -0 is 0
    const auto bits = BitCast<int32_t>(score);
    const int32_t key = bits ^ ((bits >> 31) & INT32_MAX);
    keys[i] = key;
    low = key < low ? key : low;
    high = key > high ? key : high;
  }
  *least = low;
  *most = high;
}

int64_t Mark(const int32_t* keys, int64_t count, int32_t bound,
             uint8_t* marks) {
  constexpr int64_t kBlock = 1 << 20;  // whose sums fit 32 bits
  int64_t total = 0;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = count - begin < kBlock ? count : begin + kBlock;
    int32_t sum = 0;
    for (int64_t i = begin; i < end; ++i) sum += keys[i] > bound;
    total += sum;
    if (marks == nullptr) continue;
    for (int64_t i = begin; i < end; ++i) marks[i] = keys[i] > bound;
  }
  return total;
}

int64_t Nearest(const float* a, const float* b, int64_t count) {
  Floats least = Load(a) + Load(b);
  Ints32 places = {}, at = {};
  for (int64_t i = kFloatLanes; i < count; i += kFloatLanes) {
    const Floats sum = Load(a + i) + Load(b + i);
    at += 1;
    const Ints32 is_less = sum < least;
    places = is_less ? at : places;
    least = is_less ? sum : least;
  }
  int64_t best = int64_t{places[0]} * kFloatLanes;
  float sum = least[0];
  for (int64_t lane = 0; lane < kFloatLanes; ++lane) {
    const int64_t place = int64_t{places[lane]} * kFloatLanes + lane;
    if (least[lane] > sum || (least[lane] == sum && place > best)) continue;
    sum = least[lane];
    best = place;
  }
  return best;
}

}  // namespace

const PointKernels point_kernels = {Project, AddProjected, AddRows, Subtract,
                                    Keys,    Mark,         Nearest};

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm
