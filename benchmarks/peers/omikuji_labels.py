"""The trees of Omikuji, trained on given examples."""

import importlib.metadata
import pathlib
import tempfile

import omikuji

from benchmarks.peers import label_runs


class Implementation(label_runs.Implementation):
    """See `common.peer_process`; `label_trees` makes the spec."""

    def __init__(self, spec):
        """Reads the examples."""
        super().__init__(spec, importlib.metadata.version("omikuji"))

    def _train(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "train.txt")
            self._write(path)
            return omikuji.Model.train_on_data(
                str(path),
                omikuji.Model.default_hyper_param(),
                n_threads=self.spec["threads"],
            )

    def _find(self, model):
        found = []
        for inputs in self.data["test_inputs"].tolist():
            best = model.predict(list(enumerate(inputs)), top_k=5)
            labels = [label for label, _ in best]
            found.append((labels + 5 * [-1])[:5])
        return found

    def _write(self, path):
        """Writes the training data as the text that Omikuji reads."""
        inputs = self.data["train_inputs"]
        with open(path, "w") as file:
            sizes = *inputs.shape, self.spec["num_labels"]
            print(*sizes, file=file)
            for x, labels in zip(
                inputs, self.data["train_labels"], strict=True
            ):
                names = ",".join(map(str, labels[labels >= 0]))
                features = (f"{i}:{value:.7g}" for i, value in enumerate(x))
                print(names, *features, file=file)
