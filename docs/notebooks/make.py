"""Makes the notebooks: runs NAME.py, and writes code and output to NAME.ipynb.

    .venv/bin/python docs/notebooks/make.py dense_to_tree recommender

In a script, `# %%` begins a cell with code, and `# %% [markdown]` begins a cell
with text. The cell `# %% tags=["parameters"]` sets the sizes.
"""

import base64
import contextlib
import io
import json
import pathlib
import re
import sys

import matplotlib
from matplotlib import pyplot as plt


def cells(script):
    """Returns the cells of a script as Jupyter stores them, without outputs."""
    found = []
    for head, body in re.findall(
        r"^# %%(.*)\n((?:(?!# %%).*\n?)*)", script, re.M
    ):
        cell = {"cell_type": "markdown", "metadata": {}}
        if "[markdown]" in head:
            body = re.sub(r"^# ?", "", body, flags=re.M)
        else:
            cell |= {"cell_type": "code", "execution_count": None}
            cell |= {"outputs": []}
        if "parameters" in head:
            cell["metadata"]["tags"] = ["parameters"]
        found.append(cell | {"source": body.strip().splitlines(keepends=True)})
    return found


def run(cells, **parameters):
    """Runs the code in order, and adds its text and pictures to the cells.

    `parameters` replace variables that the cell with the sizes sets.
    """
    namespace = {"__name__": "__main__"}
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    for count, cell in enumerate(code, 1):
        with contextlib.redirect_stdout(io.StringIO()) as text:
            exec("".join(cell["source"]), namespace)
        if cell["metadata"]:
            assert parameters.keys() <= namespace.keys()
            namespace |= parameters
        lines = text.getvalue().splitlines(keepends=True)
        output = {"output_type": "stream", "name": "stdout", "text": lines}
        cell |= {"execution_count": count, "outputs": [output] if lines else []}
        for number in plt.get_fignums():
            picture = io.BytesIO()
            plt.figure(number).savefig(picture, format="png", dpi=80)
            plt.close(number)
            png = base64.b64encode(picture.getvalue()).decode()
            output = {"output_type": "display_data", "metadata": {}}
            cell["outputs"].append(output | {"data": {"image/png": png}})


if __name__ == "__main__":
    matplotlib.use("agg")
    for name in sys.argv[1:]:
        path = pathlib.Path(__file__).with_name(name)
        notebook = {"cells": cells(path.with_suffix(".py").read_text())}
        run(notebook["cells"])
        kernel = {"name": "python3", "display_name": "Python 3"}
        kernel |= {"language": "python"}
        notebook |= {"metadata": {"kernelspec": kernel}}
        notebook |= {"nbformat": 4, "nbformat_minor": 4}
        text = json.dumps(notebook, indent=1, ensure_ascii=False)
        path.with_suffix(".ipynb").write_text(text + "\n")
