#include "cc/core/pairs/sparse_products.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace tf_hsm {
namespace {

constexpr int64_t kItemRows = 1 << 12;  // of the matrix
constexpr int64_t kBlock = 16;          // columns that are worked on together
constexpr int kLanes = 4;               // which every machine has

// Vectors, because compilers keep sums in registers only where they see some.
struct Block {
  typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));

  Vector vectors[kBlock / kLanes] = {};

  void Add(float factor, const Block& other) {
    for (int k = 0; k < kBlock / kLanes; ++k) {
      vectors[k] += factor * other.vectors[k];
    }
  }
};

// The columns of a matrix `[rows, width]` from `first` on, zeros after the
// last.
std::vector<Block> BlockOf(const float* dense, int64_t rows, int64_t width,
                           int64_t first) {
  std::vector<Block> block(rows);
  const int64_t count = std::min(kBlock, width - first);
  for (int64_t r = 0; r < rows; ++r) {
    std::memcpy(block[r].vectors, dense + r * width + first,
                count * sizeof(float));
  }
  return block;
}

// The product of row r and a block.
Block RowProduct(const SparseMatrix& matrix, int64_t r,
                 const std::vector<Block>& block) {
  Block sum;
  for (int64_t i = matrix.row_splits[r]; i < matrix.row_splits[r + 1]; ++i) {
    sum.Add(matrix.values[i], block[matrix.columns[i]]);
  }
  return sum;
}

}  // namespace

void SparseProduct(const SparseMatrix& matrix, const float* dense,
                   int64_t width, float* product, const Parallel& parallel) {
  std::vector<std::vector<Block>> blocks((width + kBlock - 1) / kBlock);
  parallel(blocks.size(), [&](int64_t b) {
    blocks[b] = BlockOf(dense, matrix.num_columns, width, b * kBlock);
  });
  const int64_t num_items = (matrix.num_rows + kItemRows - 1) / kItemRows;
  parallel(num_items, [&](int64_t item) {
    const int64_t end = std::min(matrix.num_rows, (item + 1) * kItemRows);
    for (int64_t r = item * kItemRows; r < end; ++r) {
      for (int64_t first = 0; first < width; first += kBlock) {
        const Block sum = RowProduct(matrix, r, blocks[first / kBlock]);
        const int64_t count = std::min(kBlock, width - first);
        std::memcpy(product + r * width + first, sum.vectors,
                    count * sizeof(float));
      }
    }
  });
}

void SquareProduct(const SparseMatrix& matrix, const float* dense,
                   int64_t width, float* product, const Parallel& parallel) {
  parallel((width + kBlock - 1) / kBlock, [&](int64_t item) {
    const int64_t first = item * kBlock;
    const std::vector<Block> block =
        BlockOf(dense, matrix.num_columns, width, first);
    std::vector<Block> sums(matrix.num_columns);
    for (int64_t r = 0; r < matrix.num_rows; ++r) {
      const Block row = RowProduct(matrix, r, block);
      for (int64_t i = matrix.row_splits[r]; i < matrix.row_splits[r + 1];
           ++i) {
        sums[matrix.columns[i]].Add(matrix.values[i], row);
      }
    }
    const int64_t count = std::min(kBlock, width - first);
    for (int64_t c = 0; c < matrix.num_columns; ++c) {
      std::memcpy(product + c * width + first, sums[c].vectors,
                  count * sizeof(float));
    }
  });
}

}  // namespace tf_hsm
