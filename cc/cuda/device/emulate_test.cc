// The emulation itself: what it computes, and that it sees what it must see.

#include "cc/cuda/device/emulate.h"

#include <cmath>
#include <random>
#include <vector>

#include "cc/core/testing/test_support.h"
#include "cc/cuda/device/device.h"
#include "cc/cuda/device/device_array.h"
#include "cc/cuda/device/mma.h"
#include "cc/cuda/device/sort_scan.h"

namespace tf_hsm::gpu {
namespace {

// The errors of a launch, which it takes back.
template <typename Kernel, typename... Arguments>
int ErrorsOf(Kernel kernel, int threads, int shared, Arguments... arguments) {
  const int before = emulate::errors;
  Launch(kernel, 1, threads, shared, nullptr, arguments...);
  const int errors = emulate::errors - before;
  emulate::errors = before;
  return errors;
}

void Reverse(int* values) {
  int* shared = reinterpret_cast<int*>(SharedMemory());
  shared[ThreadIndex()] = values[ThreadIndex()];
  SyncBlock();
  values[ThreadIndex()] = shared[NumThreads() - 1 - ThreadIndex()];
}

void ReverseWithoutBarrier(int* values) {
  int* shared = reinterpret_cast<int*>(SharedMemory());
  shared[ThreadIndex()] = values[ThreadIndex()];
  values[ThreadIndex()] = shared[NumThreads() - 1 - ThreadIndex()];
}

void LeaveEarly() {
  if (ThreadIndex() == 3) return;
  SyncBlock();
}

void MeetElsewhere(int* values) {
  if (ThreadIndex() < 7) {
    SyncWarp();
  } else {
    values[ThreadIndex()] = ShuffleXor(1, 1);
  }
}

void SumLanes(float* sums) {
  sums[ThreadIndex()] = WarpSum(static_cast<float>(ThreadIndex()));
}

void ReadShared(float* value) {
  if (ThreadIndex() == 0) *value = *reinterpret_cast<float*>(SharedMemory());
}

// before: what is there without a wait; after: with one.
void Fetch(const float* from, float* before, float* after) {
  float* shared = reinterpret_cast<float*>(SharedMemory());
  CopyAsync<4>(AddressOf(shared + ThreadIndex()), from + ThreadIndex(),
               ThreadIndex() == 5 ? 0 : 4);
  CommitCopies();
  CopyAsync<4>(AddressOf(shared + NumThreads() + ThreadIndex()),
               from + ThreadIndex(), 4);
  CommitCopies();
  before[ThreadIndex()] = shared[ThreadIndex()];
  WaitForCopies<1>();
  SyncBlock();
  after[ThreadIndex()] = shared[NumThreads() - 1 - ThreadIndex()];
  before[ThreadIndex()] += shared[NumThreads() + ThreadIndex()];
  WaitForCopies<0>();
}

void FetchAndLeave(const float* from) {
  CopyAsync<4>(AddressOf(SharedMemory() + 4 * ThreadIndex()), from, 4);
  CommitCopies();
}

void FetchUnaligned(const float* from) {
  CopyAsync<16>(AddressOf(SharedMemory() + 4), from, 16);
  CommitCopies();
  WaitForCopies<0>();
}

// c += a b, from matrices in memory, by the layouts of the PTX manual.
template <typename T>
void Multiply(const T* a, const T* b, float* c) {
  constexpr int words = 4 / sizeof(T), depth = 8 * words;
  const int g = Lane() / 4, t = Lane() % 4;
  auto word = [&](const T* first, int step) -> uint32_t {
    if constexpr (sizeof(T) == 4) {
      return ToTf32(*first);
    } else {
      return Pack(first[0], first[step]);
    }
  };
  uint32_t a_words[4], b_words[2];
  for (int i = 0; i < 4; ++i) {
    a_words[i] = word(a + (g + i % 2 * 8) * depth + (t + i / 2 * 4) * words, 1);
  }
  for (int i = 0; i < 2; ++i) {
    b_words[i] = word(b + (t + i * 4) * words * 8 + g, 8);
  }
  float sums[4];
  for (int i = 0; i < 4; ++i) {
    sums[i] = c[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
  }
  Mma<T>(sums, a_words, b_words);
  for (int i = 0; i < 4; ++i) {
    c[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sums[i];
  }
}

template <typename T>
void CheckMultiply(const std::string& name, std::mt19937* rng) {
  constexpr int depth = 32 / sizeof(T);
  const std::vector<T> a = Draw<T>(16 * depth, 64, rng);
  const std::vector<T> b = Draw<T>(depth * 8, 64, rng);
  std::vector<float> c = Draw<float>(16 * 8, 64, rng);
  const std::vector<float> before = c;
  Expect(ErrorsOf(Multiply<T>, 32, 0, a.data(), b.data(), c.data()) == 0, name);
  for (int m = 0; m < 16; ++m) {
    for (int n = 0; n < 8; ++n) {
      double sum = before[m * 8 + n];
      for (int k = 0; k < depth; ++k) {
        sum += ToDouble(a[m * depth + k]) * ToDouble(b[k * 8 + n]);
      }
      Near(c[m * 8 + n], sum, 1e-6, name);
    }
  }
}

// Number (r, c) of the four matrices, one below the other, is 8 r + c.
template <bool transposed>
void LoadAll(uint32_t* words) {
  uint16_t* rows = reinterpret_cast<uint16_t*>(SharedMemory());
  for (int c = 0; c < 8; ++c) rows[8 * Lane() + c] = 8 * Lane() + c;
  SyncBlock();
  uint32_t own[4];
  LoadMatrices<transposed>(AddressOf(rows + 8 * Lane()), own);
  for (int i = 0; i < 4; ++i) words[4 * Lane() + i] = own[i];
}

void LoadUnaligned() {
  uint32_t own[4];
  LoadMatrices<false>(AddressOf(SharedMemory() + 16 * Lane() + 8), own);
}

// Lanes load words or rows of matrices that are `bytes` apart.
void LoadApart(int bytes) {
  LoadTogether(reinterpret_cast<uint16_t*>(SharedMemory() + bytes * Lane()));
  SyncWarp();
}

void LoadRowsApart(int bytes) {
  uint32_t own[4];
  LoadMatrices<false>(AddressOf(SharedMemory() + bytes * Lane()), own);
}

void CheckBanks() {
  for (int bytes : {0, 2, 4, 12, 132}) {
    Expect(ErrorsOf(LoadApart, 32, 32 * bytes + 2, bytes) == 0, "banks");
  }
  for (int bytes : {8, 128}) {
    Expect(ErrorsOf(LoadApart, 32, 32 * bytes, bytes) > 0, "one bank twice");
  }
  Expect(ErrorsOf(LoadRowsApart, 32, 32 * 144, 144) == 0, "rows of matrices");
  Expect(ErrorsOf(LoadRowsApart, 32, 32 * 160, 160) > 0, "rows collide");
}

void CheckMatrices() {
  std::vector<uint32_t> plain(128), transposed(128);
  Expect(ErrorsOf(LoadAll<false>, 32, 512, plain.data()) == 0, "matrices");
  Expect(ErrorsOf(LoadAll<true>, 32, 512, transposed.data()) == 0, "matrices");
  for (int lane = 0; lane < 32; ++lane) {
    const uint32_t g = lane / 4, t = lane % 4;
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t first = 8 * (8 * i + g) + 2 * t;
      Expect(plain[4 * lane + i] == (first | (first + 1) << 16), "plain");
      const uint32_t above = 8 * (8 * i + 2 * t) + g;
      Expect(transposed[4 * lane + i] == (above | (above + 8) << 16),
             "transposed");
    }
  }
  Expect(ErrorsOf(LoadUnaligned, 32, 528) > 0, "an unaligned matrix");
}

void CheckHalf() {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const half value = {static_cast<uint16_t>(bits)};
    const float wide = Widen(value);
    if (std::isnan(wide)) continue;
    Expect(Narrow<half>(wide).bits == bits, "half " + std::to_string(bits));
  }
  Expect(Narrow<half>(1 + 0x1p-11f).bits == 0x3c00, "a tie to even");
  Expect(Narrow<half>(1 + 0x1.8p-10f).bits == 0x3c02, "a tie to even, up");
  Expect(Narrow<half>(0x1p-15f + 0x1p-25f).bits == 0x0200, "a subnormal tie");
  Expect(Narrow<half>(1e6f).bits == 0x7c00, "too large");
}

void CheckStreams() {
  const DeviceStream own, other;
  std::vector<int> values(32);
  void* const stream = other.Use();
  own.Use();
  auto errors = [&](void* used) {
    const int before = emulate::errors;
    Launch(Reverse, 1, 32, 128, used, values.data());
    const int found = emulate::errors - before;
    emulate::errors = before;
    return found;
  };
  Expect(errors(own.Use()) == 0, "its own stream");
  Expect(errors(stream) > 0, "another stream was not seen");
  Expect(errors(nullptr) > 0, "the default stream was not seen");
  emulate::expected_stream = &emulate::any_stream;
}

void CheckSorts() {
  const std::vector<uint64_t> keys = {5, 2, 5, 0};
  const std::vector<int32_t> values = {0, 1, 2, 3};
  std::vector<uint64_t> sorted_keys(4);
  std::vector<int32_t> sorted(4);
  int64_t bytes = 0;
  auto sort = [&](void* scratch) {
    return SortPairs(scratch, &bytes, keys.data(), sorted_keys.data(),
                     values.data(), sorted.data(), 4, 3, nullptr);
  };
  Expect(sort(nullptr).empty() && bytes > 0, "the bytes of a sort");
  std::vector<char> scratch(bytes);
  Expect(sort(scratch.data()).empty(), "a sort");
  Expect(sorted == std::vector<int32_t>({3, 1, 0, 2}), "a stable sort");
  --bytes;
  Expect(!sort(scratch.data()).empty(), "too little scratch");
  ++bytes;
  emulate::options.failing_call = 1;
  Expect(sort(scratch.data()).empty(), "the call before");
  Expect(!sort(scratch.data()).empty(), "the call that fails");
  Expect(sort(scratch.data()).empty(), "the call after it");
}

void CheckAll() {
  std::mt19937 rng(1);
  bool raced = false;
  for (int round = 0; round < 8; ++round) {
    std::vector<int> values(64), without(64);
    for (int i = 0; i < 64; ++i) values[i] = without[i] = i;
    Expect(ErrorsOf(Reverse, 64, 256, values.data()) == 0, "reverse");
    for (int i = 0; i < 64; ++i) Expect(values[i] == 63 - i, "reversed");
    ErrorsOf(ReverseWithoutBarrier, 64, 256, without.data());
    raced = raced || without != values;
  }
  Expect(raced, "a missing barrier was not seen");
  Expect(ErrorsOf(LeaveEarly, 32, 0) > 0, "a thread left before a barrier");
  std::vector<int> ints(32);
  Expect(ErrorsOf(MeetElsewhere, 32, 0, ints.data()) > 0, "lanes diverge");
  std::vector<float> sums(64);
  Expect(ErrorsOf(SumLanes, 64, 0, sums.data()) == 0, "sums");
  Expect(sums[3] == 496 && sums[40] == 496 + 32 * 32, "sums of warps");
  float value = 0;
  ErrorsOf(ReadShared, 32, 4, &value);
  Expect(std::isnan(value), "shared memory starts as NaN");
  std::vector<float> from(32, 2), before(32), after(32);
  Expect(
      ErrorsOf(Fetch, 32, 256, from.data(), before.data(), after.data()) == 0,
      "copies");
  for (int i = 0; i < 32; ++i) {
    Expect(std::isnan(before[i]), "a copy came before the wait");
    Expect(after[i] == (i == 26 ? 0 : 2), "a copy did not come");
  }
  Expect(ErrorsOf(FetchAndLeave, 32, 128, from.data()) > 0, "never waited for");
  Expect(ErrorsOf(FetchUnaligned, 32, 64, from.data()) > 0, "unaligned");
  CheckStreams();
  CheckSorts();
  CheckMultiply<float>("tf32", &rng);
  CheckMultiply<bfloat16>("bfloat16", &rng);
  CheckMultiply<half>("half", &rng);
  CheckMatrices();
  CheckBanks();
  CheckHalf();
}

}  // namespace
}  // namespace tf_hsm::gpu

int main() {
  tf_hsm::gpu::CheckAll();
  return tf_hsm::Summarize();
}
