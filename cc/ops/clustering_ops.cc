// The ops on clusters of points, of which trees are made.

#include "cc/ops/op.h"

namespace tf_hsm {
namespace {

REGISTER_OP("TfHsmSplitPoints")
    .Input("points: float")
    .Input("order: int64")
    .Input("runs: int64")
    .Attr("seed: int")
    .Attr("max_iterations: int >= 1")
    .Output("new_order: int64")
    .SetShapeFn(ShapeFunction([](InferenceContext* c) -> absl::Status {
      c->set_output(0, c->input(1));
      return absl::OkStatus();
    }))
    .Doc(R"doc(
Divides runs of points into two compact parts of given sizes.

Each run is cut along its principal direction; then Lloyd's algorithm improves
the parts. Within a part, points keep their order.

points: [points, width].
order: [points], the point at each place.
runs: [runs, 3], ascending: the first place of a run's left part, of its right
  part, and the place after it.
seed: of where searches for principal directions begin.
max_iterations: how many steps of Lloyd's algorithm there are at most.
new_order: the points of each run at its places, the left part first.
)doc");

REGISTER_OP("TfHsmExchangePoints")
    .Input("points: float")
    .Input("order: int64")
    .Input("starts: int64")
    .Input("sizes: int64")
    .Input("splits: float")
    .Attr("seed: int")
    .Attr("max_iterations: int >= 1")
    .Attr("rounds: int >= 1")
    .Output("new_order: int64")
    .Output("new_splits: float")
    .Output("pairs: int64")
    .Output("moved: int64")
    .SetShapeFn(ShapeFunction([](InferenceContext* c) -> absl::Status {
      ShapeHandle clusters;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 2, &clusters));
      c->set_output(0, c->input(1));
      c->set_output(1, c->input(4));
      for (int i = 2; i < 4; ++i) {
        c->set_output(i, c->Vector(c->Dim(clusters, 0)));
      }
      return absl::OkStatus();
    }))
    .Doc(R"doc(
Exchanges points between the clusters of a family, two clusters at a time.

In a round, near clusters are paired, and the points of each pair are divided
among them anew by two-means: the sum of squared distances to the means of the
clusters does not become larger, and their sizes stay.

points: [points, width].
order: [points], the point at each place.
starts: [families, clusters], ascending: the first place of each cluster.
sizes: [families, clusters], how many places each cluster has.
splits: [families, clusters, clusters], how often two clusters have been divided
  anew, zeros at first. The more often, the farther apart they count. It is less
  than zero where neither cluster has changed since.
seed: of where searches for principal directions begin.
max_iterations: how many steps of Lloyd's algorithm a division has at most.
rounds: how many there are at most. They end when no pair is left.
new_order: the point at each place after the rounds.
new_splits: what the next rounds take.
pairs: [families], how many pairs were divided anew.
moved: [families], how often a point changed its cluster.
)doc");

}  // namespace
}  // namespace tf_hsm
