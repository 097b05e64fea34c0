"""The notebooks of docs/notebooks run, and are stored with their outputs."""

import contextlib
import io
import json
import pathlib

import pytest

plt = pytest.importorskip("matplotlib.pyplot")
NOTEBOOKS = {
    path.stem: path for path in pathlib.Path("docs/notebooks").glob("*.ipynb")
}
SMALL = {
    "dense_to_tree": {
        "NUM_WORDS": 300,
        "NUM_TOPICS": 10,
        "NUM_EXAMPLES": 4_000,
        "HELD_OUT": 1_000,
        "BATCH": 64,
        "STEPS": 2,
        "DENSE_ROUNDS": 2,
        "TREE_ROUNDS": 3,
    },
    "recommender": {
        "NUM_ITEMS": 600,
        "NUM_TOPICS": 20,
        "NUM_USERS": 500,
        "TEST_USERS": 40,
        "BATCH": 64,
        "ROUNDS": 2,
    },
}


def code_cells(name):
    """The cells with code of a notebook."""
    cells = json.loads(NOTEBOOKS[name].read_text())["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def test_every_notebook_is_tested():
    assert NOTEBOOKS.keys() == SMALL.keys()


@pytest.mark.parametrize("name", SMALL)
def test_the_notebook_runs(name):
    """With small sizes; the asserts in the cells hold for these too."""
    plt.switch_backend("agg")
    namespace = {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()) as text:
        for cell in code_cells(name):
            exec("".join(cell["source"]), namespace)
            if "parameters" in cell["metadata"].get("tags", ()):
                assert SMALL[name].keys() <= namespace.keys()
                namespace |= SMALL[name]
    assert text.getvalue() and plt.get_fignums()
    plt.close("all")


@pytest.mark.parametrize("name", SMALL)
def test_the_notebook_was_run_in_order(name):
    cells = code_cells(name)
    counts = [cell["execution_count"] for cell in cells]
    assert counts == list(range(1, 1 + len(cells)))
    kinds = {out["output_type"] for cell in cells for out in cell["outputs"]}
    assert kinds == {"stream", "display_data"}
    assert NOTEBOOKS[name].stat().st_size < 300_000
