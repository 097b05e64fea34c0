// Products of sparse matrices, against loops over dense ones.

#include "cc/core/pairs/sparse_products.h"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "cc/core/testing/test_support.h"

namespace tf_hsm {
namespace {

struct OwnedMatrix {
  std::vector<int64_t> row_splits = {0};
  std::vector<int32_t> columns;
  std::vector<float> values;
};

void Check(int64_t rows, int64_t columns, int64_t width, std::mt19937_64* rng) {
  OwnedMatrix owned;
  std::vector<double> matrix(rows * columns);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t entries = columns == 0 ? 0 : (*rng)() % 9;
    for (int64_t i = 0; i < entries; ++i) {
      // In any order, and some twice.
      owned.columns.push_back((*rng)() % columns);
      owned.values.push_back(static_cast<int>((*rng)() % 64) / 64.0f - 0.5f);
      matrix[r * columns + owned.columns.back()] += owned.values.back();
    }
    owned.row_splits.push_back(owned.columns.size());
  }
  const std::vector<float> dense = Draw<float>(columns * width, 64, rng);
  std::vector<double> product(rows * width), square(columns * width);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t j = 0; j < width; ++j) {
        product[r * width + j] +=
            matrix[r * columns + c] * dense[c * width + j];
      }
    }
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t j = 0; j < width; ++j) {
        square[c * width + j] +=
            matrix[r * columns + c] * product[r * width + j];
      }
    }
  }
  const SparseMatrix sparse = {rows, columns, owned.row_splits.data(),
                               owned.columns.data(), owned.values.data()};
  const std::string name = std::to_string(rows) + " x " +
                           std::to_string(columns) + " x " +
                           std::to_string(width);
  for (const Parallel& parallel : {Parallel(Serial), Parallel(Reversed)}) {
    std::vector<float> got(rows * width, NAN), got_square(columns * width, NAN);
    SparseProduct(sparse, dense.data(), width, got.data(), parallel);
    SquareProduct(sparse, dense.data(), width, got_square.data(), parallel);
    NearAll(got, product, 1e-5, "product " + name);
    NearAll(got_square, square, 1e-5, "square " + name);
  }
}

}  // namespace
}  // namespace tf_hsm

int main() {
  std::mt19937_64 rng(1);
  for (const int64_t rows : {0, 1, 7, 5000}) {
    for (const int64_t columns : {0, 1, 3, 50}) {
      for (const int64_t width : {0, 1, 15, 16, 33}) {
        tf_hsm::Check(rows, columns, width, &rng);
      }
    }
  }
  return tf_hsm::Summarize();
}
