"""Lines that the tables of the loss and of the training steps share."""

from benchmarks.common import units


def title(case, result, rule=""):
    """Names a case, with the sizes of its tree, and the rule of an update."""
    sizes, tree = case.sizes, result["tree"]
    return (
        f"{case}{rule and f', {rule}'}: N={sizes.num_classes:,}, "
        f"D={sizes.width}, B={sizes.batch:,}, {tree['rows']:,} rows in "
        f"{tree['groups']:,} groups"
    )


def note(time):
    """Returns why an implementation is refused or its time rough; or None."""
    if "refused" in time:
        return f"refused: {time['refused']}"
    count = len(time["samples_ms"])
    return f"measured only {count} times: slow" if count < 3 else None


def binds(floor):
    """Says whether memory or arithmetic makes most of a floor."""
    share = floor["memory_share"]
    which = "memory" if share >= 0.5 else "arithmetic"
    return f"{which} binds ({max(share, 1 - share):.0%} of the floor)"


def rates(result):
    """The rates that floors are made of, and what a batch touches."""
    rates, work = result["rates"], result["work"]
    return (
        f"kernels for {result['isa']}; "
        f"floor: {rates['flops'] / 1e9:,.0f} GFLOP/s of tf.matmul, "
        f"{units.of_bytes(rates['read'])}/s read, "
        f"{units.of_bytes(rates['read_write'])}/s read and written; "
        f"{work['touched_groups']:,} groups of "
        f"{sum(work['touched_rows']):,} rows touched"
    )
