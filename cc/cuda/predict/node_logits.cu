// An item is 32 rows and some of the examples. A block loads the rows once,
// finds who needs them, and multiplies them with the inputs of 32 such examples
// at a time. Blocks look at many items at once to find those that anybody
// needs. Bytes: the needed rows once per item, the inputs from the second
// cache.

#include "cc/cuda/loss/dispatch.h"
#include "cc/cuda/loss/inputs.h"
#include "cc/cuda/predict/node_logits.h"

namespace tf_hsm::gpu {
namespace {

// `rows` are those of the weights: of a pinned tree one per group.
template <typename T>
struct LogitsLaunch : NodeLogitsArguments<T> {
  const int64_t* weight_rows;  // the one at each place; null: the place
  int64_t examples;            // of an item
  SoftCap<Accumulator<T>> soft_cap;
  bool has_sigmoids;
  Slabs slabs;
  int weight_bytes;
  int input_bytes;
};

// Items that a block looks at together.
constexpr int kItemsAtOnce = 64;
constexpr int kExampleList = kTile + kTileThreads;

struct LogitsItem {
  int64_t first_row;  // among those of the span
  int rows;
  int64_t begin, end;               // examples
  int64_t first_group, last_group;  // inclusive, by place
};

template <typename T>
TF_HSM_DEVICE int64_t RowAt(const LogitsLaunch<T>& in, int64_t place) {
  return in.weight_rows == nullptr ? place : in.weight_rows[place];
}

template <typename T>
TF_HSM_DEVICE LogitsItem ItemAt(const LogitsLaunch<T>& in, int64_t i) {
  const int64_t parts = CeilDivide(in.size, in.examples);
  LogitsItem item;
  item.first_row = i / parts * kTile;
  item.rows = static_cast<int>(
      Smaller<int64_t>(kTile, in.rows.num_rows - item.first_row));
  item.begin = i % parts * in.examples;
  item.end = Smaller(item.begin + in.examples, in.size);
  item.first_group = item.last_group = in.rows.first_group;
  if (in.least == nullptr) return item;
  const int64_t low = in.rows.first_group;
  const int64_t high = low + in.rows.num_groups - 1;
  auto place_of = [&](int64_t row) {
    const int64_t at = in.rows.first_row + item.first_row + row;
    if (in.tree.pinned) return at;
    return PlaceOf(in.places, in.tree.row_groups[RowAt(in, at)]);
  };
  item.first_group = Smaller(Larger(place_of(0), low), high);
  item.last_group = Smaller(Larger(place_of(item.rows - 1), low), high);
  return item;
}

template <typename T>
TF_HSM_DEVICE bool Opens(const LogitsLaunch<T>& in, const LogitsItem& item,
                         int64_t example) {
  if (in.least == nullptr) return true;
  const Accumulator<T> least = in.least[example];
  for (int64_t g = item.first_group; g <= item.last_group; ++g) {
    if (IsOpened(in.bounds[g * in.size + example], least)) return true;
  }
  return false;
}

// Whether any example needs the item, the same in all lanes of a warp.
template <typename T>
TF_HSM_DEVICE bool IsNeeded(const LogitsLaunch<T>& in, const LogitsItem& item) {
  if (in.least == nullptr) return true;
  int found = 0;
  for (int64_t e = item.begin + Lane(); e < item.end; e += kWarp) {
    found |= Opens(in, item, e) ? 1 : 0;
  }
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    found |= ShuffleXor(found, lanes);
  }
  return found != 0;
}

// Starts to load the rows list[0], list[1], ... [count] of a matrix, as
// LoadTile does neighbours.
template <typename Element, typename Index>
TF_HSM_DEVICE void GatherRows(const Element* from, int64_t width,
                              const Index* list, int count, int columns,
                              int copy_bytes, int stride, Element* to) {
  const int padded = PaddedColumns<Element>(columns);
  if (copy_bytes == 16) {
    constexpr int elements = 16 / static_cast<int>(sizeof(Element));
    const int across = padded / elements;
    for (int i = ThreadIndex(); i < kTile * across; i += kTileThreads) {
      const int row = i / across;
      const int column = i % across * elements;
      const bool there = row < count && column < columns;
      CopyAsync<16>(AddressOf(to + row * stride + column),
                    there ? from + list[row] * width + column : from,
                    there ? 16 : 0);
    }
    return;
  }
  for (int i = ThreadIndex(); i < kTile * padded; i += kTileThreads) {
    const int row = i / padded;
    const int column = i % padded;
    to[row * stride + column] = row < count && column < columns
                                    ? from[list[row] * width + column]
                                    : Element{};
  }
}

template <typename Product>
struct LogitsTile {
  using T = typename Product::Weight;
  using Input = typename Product::Input;
  T* w;
  Input* x;
  int w_stride, x_stride;

  TF_HSM_DEVICE void LoadRows(const LogitsLaunch<T>& in, const LogitsItem& item,
                              int slab, int columns) {
    const int64_t row = in.rows.first_row + item.first_row;
    const T* from = in.weights + int64_t{slab} * in.slabs.columns;
    if (in.weight_rows != nullptr) {
      GatherRows(from, in.width, in.weight_rows + row, item.rows, columns,
                 in.weight_bytes, w_stride, w);
    } else {
      LoadTile(from + row * in.width, in.width, item.rows, columns,
               in.weight_bytes, kTile, w_stride, w);
    }
  }

  // The logits of the item's rows and the examples in `list` [count]. With one
  // slab the rows are being loaded already.
  TF_HSM_DEVICE void Multiply(const LogitsLaunch<T>& in, const LogitsItem& item,
                              const int* list, int count) {
    Product product;
    product.ClearLogits();
    for (int slab = 0; slab < in.slabs.count; ++slab) {
      const int64_t first = int64_t{slab} * in.slabs.columns;
      const int columns = static_cast<int>(
          Smaller<int64_t>(in.slabs.columns, in.width - first));
      if (in.slabs.count > 1) LoadRows(in, item, slab, columns);
      const Input* inputs = reinterpret_cast<const Input*>(in.x);
      GatherRows(inputs + first, in.width, list, count, columns, in.input_bytes,
                 x_stride, x);
      CommitCopies();
      WaitForCopies<0>();
      SyncBlock();
      product.MultiplyLogits(w, w_stride, x, x_stride,
                             PaddedColumns<Input>(columns), item.rows, count,
                             kWhole);
      SyncBlock();
    }
    const int64_t row = in.rows.first_row + item.first_row;
    product.ForEachLogit([&](int r, int e, typename Product::A z) {
      if (r >= item.rows || e >= count) return;
      if (in.biases != nullptr) z += Widen(in.biases[RowAt(in, row + r)]);
      z = in.has_sigmoids ? LogSigmoid(z) : in.soft_cap.Logit(z);
      auto* out = in.out + list[e] * in.stride;
      const int64_t at = item.first_row + r;
      if (in.tree.pinned) {
        out[2 * at] = z;
        out[2 * at + 1] = 0;
      } else {
        out[at] = z;
      }
    });
  }
};

template <typename Product>
TF_HSM_KERNEL(kTileThreads)
NodeLogits(LogitsLaunch<typename Product::Weight> in) {
  using T = typename Product::Weight;
  using Input = typename Product::Input;
  LogitsTile<Product> tile;
  tile.w_stride = TileStride<T>(in.slabs.columns);
  tile.x_stride = TileStride<Input>(in.slabs.columns);
  tile.w = reinterpret_cast<T*>(SharedMemory());
  tile.x = reinterpret_cast<Input*>(tile.w + kTile * tile.w_stride);
  int* list = reinterpret_cast<int*>(tile.x + kTile * tile.x_stride);
  int* needed = list + kExampleList;
  int* found = needed + kItemsAtOnce;
  const int64_t items =
      CeilDivide(in.rows.num_rows, kTile) * CeilDivide(in.size, in.examples);
  const int64_t blocks = NumBlocks();
  if (ThreadIndex() == 0) *found = 0;
  for (int64_t first = BlockIndex(); first < items;
       first += kItemsAtOnce * blocks) {
    for (int n = WarpIndex(); n < kItemsAtOnce; n += kTileThreads / kWarp) {
      const int64_t i = first + n * blocks;
      const bool is_needed = i < items && IsNeeded(in, ItemAt(in, i));
      if (Lane() == 0) needed[n] = is_needed ? 1 : 0;
    }
    SyncBlock();
    for (int n = 0; n < kItemsAtOnce; ++n) {
      if (needed[n] == 0) continue;
      const LogitsItem item = ItemAt(in, first + n * blocks);
      if (in.slabs.count == 1) {
        tile.LoadRows(in, item, 0, static_cast<int>(in.width));
      }
      int pending = 0;  // in the list
      for (int64_t begin = item.begin; begin < item.end;
           begin += kTileThreads) {
        const int64_t example = begin + ThreadIndex();
        const bool opens = example < item.end && Opens(in, item, example);
        SyncBlock();  // the list and the count were read
        if (opens) {
          list[pending + AddAtomically(found, 1)] = static_cast<int>(example);
        }
        SyncBlock();
        pending += *found;
        SyncBlock();
        if (ThreadIndex() == 0) *found = 0;
        const bool is_last = begin + kTileThreads >= item.end;
        while (pending >= kTile || (is_last && pending > 0)) {
          const int count = Smaller(pending, kTile);
          pending -= count;
          tile.Multiply(in, item, list + pending, count);
        }
      }
    }
    SyncBlock();  // the marks were read
  }
}

// All but what the product says.
template <typename T>
LogitsLaunch<T> LaunchOf(const Launcher& launcher, const Batch<T>& batch,
                         const NodeLogitsArguments<T>& arguments) {
  LogitsLaunch<T> in;
  static_cast<NodeLogitsArguments<T>&>(in) = arguments;
  in.weight_rows = in.places.rows;
  if (in.tree.pinned) {
    in.rows.first_row = in.rows.first_group;
    in.rows.num_rows = in.rows.num_groups;
    in.weight_rows = in.places.groups;
  }
  // Few rows: several blocks share the examples.
  const int64_t tiles = CeilDivide(in.rows.num_rows, kTile);
  const int64_t parts =
      Smaller(CeilDivide(int64_t{launcher.device.num_processors} * 4,
                         Larger<int64_t>(tiles, 1)),
              CeilDivide(in.size, kTile));
  in.examples = RoundUp(CeilDivide(in.size, parts), kTile);
  in.soft_cap = SoftCap<Accumulator<T>>(batch.logit_soft_cap);
  in.has_sigmoids = batch.has_sigmoids;
  in.slabs = SlabsOf(batch, launcher.device);
  in.weight_bytes = CopyBytes(in.weights, in.width);
  return in;
}

}  // namespace

template <typename T>
void PackOperands(const Launcher& launcher, const Batch<T>& batch,
                  Accumulator<T>* x) {
  WithProduct(batch, launcher.device, [&](auto name) {
    using Product = typename decltype(name)::Product;
    auto* operands = reinterpret_cast<typename Product::Input*>(x);
    if constexpr (Product::kTensorCores) {
      PackInputs(launcher, batch, nullptr, nullptr, operands);
    } else {
      PackInputs(launcher, batch, nullptr, operands);
    }
  });
}

template <typename T>
void MakeNodeLogits(const Launcher& launcher, const Batch<T>& batch,
                    const NodeLogitsArguments<T>& arguments) {
  WithProduct(batch, launcher.device, [&](auto name) {
    using Product = typename decltype(name)::Product;
    LogitsLaunch<T> in = LaunchOf(launcher, batch, arguments);
    in.input_bytes = CopyBytes(
        reinterpret_cast<const typename Product::Input*>(in.x), in.width);
    const int64_t items =
        CeilDivide(in.rows.num_rows, kTile) * CeilDivide(in.size, in.examples);
    Launch(NodeLogits<Product>, launcher.Grid(items), kTileThreads,
           TileBytes<T>(in.slabs.columns) +
               TileBytes<typename Product::Input>(in.slabs.columns) +
               (kExampleList + kItemsAtOnce + 1) * sizeof(int),
           launcher.stream, in);
  });
}

#define TF_HSM_INSTANTIATE(T, ...) \
  TF_HSM_MAKE(PackOperands, T) TF_HSM_MAKE(MakeNodeLogits, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm::gpu
