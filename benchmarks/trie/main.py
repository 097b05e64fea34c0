"""Measures what a constraint adds to a step of a beam search over codes.

    bazel run //benchmarks:trie
    bazel run //benchmarks:trie -- --items=20000000 --nodicts

benchmarks/README.md says what is timed.
"""

from absl import app, flags

from benchmarks.common import command, count_flags, machine, units
from benchmarks.trie import searches

_ITEMS = count_flags.define("items", 1_000_000, "Items, each with a path.")
_CODES = count_flags.define("num_codes", 2048, "Codes of a level.")
_LEVELS = count_flags.define("levels", 8, "Codes of an item.")
_BEAM_WIDTH = count_flags.define("beam_width", 70, "Hypotheses of a search.")
_DICTS = flags.DEFINE_boolean(
    "dicts", True, "Also with nested dicts in Python, some 2 KB for each item."
)
_REPETITIONS = count_flags.define(
    "repetitions", 9, "Searches timed for each figure."
)


def main(_):
    """Measures all searches, prints their table and writes the JSON file."""
    sizes = searches.Sizes(
        _ITEMS.value, _CODES.value, _LEVELS.value, _BEAM_WIDTH.value
    )
    if sizes.num_codes**sizes.levels < sizes.items:
        raise app.UsageError(
            f"{sizes.num_codes} codes of {sizes.levels} levels are not enough "
            f"for {sizes.items} items"
        )
    threads = command.threads()
    figures = command.Figures(threads, sizes=sizes._asdict())
    found = machine.run_alone(
        searches.measure, sizes, _REPETITIONS.value, threads, _DICTS.value
    )
    figures.add("searches", found)
    print(
        f"\n{sizes.items:,} items of {sizes.levels} levels of "
        f"{sizes.num_codes:,} codes, {found['nodes']:,} nodes; beams of "
        f"{sizes.beam_width}\nthe trie takes "
        f"{units.of_bytes(found['trie_bytes'])} and was made in "
        f"{found['trie_seconds']:.1f} s; {found['invalid']} "
        f"invalid items found\n\n{'':<34}{'ms a step':>10}{'added':>10}"
    )
    for name, times in found["searches"].items():
        print(f"{name:<34}{times['ms']:>10.3f}{times['added_ms']:>10.3f}")
    if found["invalid"]:
        raise SystemExit("A search has found what is no item.")


if __name__ == "__main__":
    app.run(main)
