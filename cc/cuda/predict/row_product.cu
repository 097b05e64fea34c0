// A product of tiles whose rows are cut into pieces that are added in order.
// Bytes: dz read once per 64 columns, the weights once per 32 examples.

#include "cc/cuda/device/convert.h"
#include "cc/cuda/predict/row_product.h"

namespace tf_hsm::gpu {
namespace {

// A block makes kExamples x kColumns numbers of dx at a time, from kRows rows
// at a time.
constexpr int kExamples = 32;
constexpr int kColumns = 64;
constexpr int kRows = 16;
constexpr int kStride = kExamples + 1;  // in shared memory, of dz

template <typename T>
struct ProductArguments {
  const T* weights;
  int64_t num_rows;
  int64_t width;
  const Accumulator<T>* dz;
  int64_t size;
  int64_t pieces;
  int64_t piece_rows;
  Accumulator<T>* out;  // [pieces, size, width]
};

template <typename T>
TF_HSM_KERNEL(kBlockThreads)
MultiplyRows(ProductArguments<T> in) {
  using A = Accumulator<T>;
  A* z = reinterpret_cast<A*>(SharedMemory());
  A* w = z + kRows * kStride;
  const int64_t column_tiles = CeilDivide(in.width, kColumns);
  const int64_t tiles = CeilDivide(in.size, kExamples) * column_tiles;
  const int own_example = ThreadIndex() / 16;
  const int own_column = ThreadIndex() % 16;
  for (int64_t i = BlockIndex(); i < tiles * in.pieces; i += NumBlocks()) {
    const int64_t piece = i / tiles;
    const int64_t example = i % tiles / column_tiles * kExamples;
    const int64_t column = i % tiles % column_tiles * kColumns;
    const int64_t end = Smaller((piece + 1) * in.piece_rows, in.num_rows);
    A sums[2][4] = {};
    for (int64_t row = piece * in.piece_rows; row < end; row += kRows) {
      for (int j = ThreadIndex(); j < kRows * kExamples; j += kBlockThreads) {
        const int64_t e = example + j / kRows, r = row + j % kRows;
        z[j % kRows * kStride + j / kRows] =
            e < in.size && r < end ? in.dz[e * in.num_rows + r] : A(0);
      }
      for (int j = ThreadIndex(); j < kRows * kColumns; j += kBlockThreads) {
        const int64_t r = row + j / kColumns, d = column + j % kColumns;
        w[j] = r < end && d < in.width
                   ? static_cast<A>(Widen(in.weights[r * in.width + d]))
                   : A(0);
      }
      SyncBlock();
      for (int r = 0; r < kRows; ++r) {
        const A a = z[r * kStride + own_example];
        const A b = z[r * kStride + own_example + kExamples / 2];
        TF_HSM_UNROLL
        for (int c = 0; c < 4; ++c) {
          const A weight = w[r * kColumns + own_column + 16 * c];
          sums[0][c] += a * weight;
          sums[1][c] += b * weight;
        }
      }
      SyncBlock();
    }
    TF_HSM_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int64_t e = example + own_example + half * (kExamples / 2);
      if (e >= in.size) continue;
      A* out = in.out + (piece * in.size + e) * in.width;
      TF_HSM_UNROLL
      for (int c = 0; c < 4; ++c) {
        const int64_t d = column + own_column + 16 * c;
        if (d < in.width) out[d] = sums[half][c];
      }
    }
  }
}

template <typename A>
TF_HSM_KERNEL(kBlockThreads)
AddPieces(const A* parts, int64_t pieces, int64_t count, A* out) {
  for (int64_t i = GlobalIndex(); i < count; i += NumBlocks() * NumThreads()) {
    A sum = 0;
    for (int64_t piece = 0; piece < pieces; ++piece) {
      sum += parts[piece * count + i];
    }
    out[i] = sum;
  }
}

}  // namespace

template <typename T>
int64_t PiecesOf(const Batch<T>& batch, const DeviceLimits& device) {
  constexpr int64_t kMinRows = 512;
  const int64_t tiles = Larger<int64_t>(
      CeilDivide(batch.size, kExamples) * CeilDivide(batch.width, kColumns), 1);
  return Smaller(CeilDivide(4 * int64_t{device.num_processors}, tiles),
                 CeilDivide(batch.tree.num_weight_rows(), kMinRows));
}

template <typename T>
void MultiplyByRows(const Launcher& launcher, const Batch<T>& batch,
                    const Accumulator<T>* dz, int64_t pieces,
                    Accumulator<T>* parts, Accumulator<T>* dx) {
  using A = Accumulator<T>;
  const int64_t rows = batch.tree.num_weight_rows();
  const int64_t piece_rows = RoundUp(CeilDivide(rows, pieces), kRows);
  const ProductArguments<T> in = {
      batch.weights, rows,   batch.width, dz,
      batch.size,    pieces, piece_rows,  pieces > 1 ? parts : dx};
  const int64_t tiles =
      CeilDivide(batch.size, kExamples) * CeilDivide(batch.width, kColumns);
  Launch(MultiplyRows<T>, launcher.Grid(tiles * pieces), kBlockThreads,
         (kRows * kStride + kRows * kColumns) * sizeof(A), launcher.stream, in);
  if (pieces > 1) {
    const int64_t count = batch.size * batch.width;
    launcher.PerThread(AddPieces<A>, count, parts, pieces, count, dx);
  }
}

#define TF_HSM_INSTANTIATE(T, ...) \
  TF_HSM_MAKE(PiecesOf, T) TF_HSM_MAKE(MultiplyByRows, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm::gpu
