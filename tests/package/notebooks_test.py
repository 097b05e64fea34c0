"""The notebooks of docs/notebooks are what their scripts make, and run."""

import json
import pathlib
import runpy

import pytest

plt = pytest.importorskip("matplotlib.pyplot")
FOLDER = pathlib.Path("docs/notebooks")
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


@pytest.fixture(scope="module")
def make():
    plt.switch_backend("agg")
    return runpy.run_path(str(FOLDER / "make.py"))


def script_cells(make, name):
    return make["cells"]((FOLDER / f"{name}.py").read_text())


def outputs(cells, kind):
    return [
        output
        for cell in cells
        for output in cell.get("outputs", ())
        if output["output_type"] == kind
    ]


def test_every_notebook_is_tested():
    scripts = {path.stem for path in FOLDER.glob("*.py")} - {"make"}
    assert scripts == SMALL.keys()
    assert scripts == {path.stem for path in FOLDER.glob("*.ipynb")}


@pytest.mark.parametrize("name", SMALL)
def test_the_script_runs(make, name):
    """With small sizes; the asserts in the script hold for these too."""
    cells = script_cells(make, name)
    make["run"](cells, **SMALL[name])
    assert outputs(cells, "stream") and outputs(cells, "display_data")


@pytest.mark.parametrize("name", SMALL)
def test_the_notebook_has_the_cells_of_its_script(make, name):
    path = FOLDER / f"{name}.ipynb"
    assert path.stat().st_size < 300_000
    notebook = json.loads(path.read_text())
    script = script_cells(make, name)
    for cell, written in zip(notebook["cells"], script, strict=True):
        assert cell["source"] == written["source"]
        assert cell["cell_type"] == written["cell_type"]
    for kind in ("stream", "display_data"):
        assert outputs(notebook["cells"], kind)


def test_cells_of_each_kind(make):
    script = (
        "# %% [markdown]\n# # Title\n#\n# Text\n\n"
        '# %%\na = 1\n\n# %% tags=["parameters"]\nb = a\n'
    )
    text, code, sizes = make["cells"](script)
    assert text["source"] == ["# Title\n", "\n", "Text"]
    assert code["source"] == ["a = 1"] and not code["metadata"]
    assert sizes["metadata"] == {"tags": ["parameters"]}


def test_pictures_texts_and_parameters_reach_the_cells(make):
    script = (
        '# %% tags=["parameters"]\nn = 5\n\n# %%\nprint(n)\n\n'
        "# %%\nimport matplotlib.pyplot as plt\nplt.figure()\n"
    )
    cells = make["cells"](script)
    make["run"](cells, n=7)
    assert cells[1]["outputs"][0]["text"] == ["7\n"]
    (picture,) = outputs(cells, "display_data")
    assert picture["data"]["image/png"].startswith("iVBORw0KGgo")
    with pytest.raises(AssertionError):
        make["run"](make["cells"](script), unknown=1)
