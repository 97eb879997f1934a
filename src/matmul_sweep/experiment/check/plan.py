"""Whether a data set has what its configuration and the catalogue ask for."""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from matmul_sweep.catalogue.entries import Catalogue, Kind, kernel_name
from matmul_sweep.experiment.check.data_set import SAMPLES, DataSet, among
from matmul_sweep.experiment.check.samples import PAIR
from matmul_sweep.experiment.dataset.sweeps import sweep_of, takes_place
from matmul_sweep.experiment.dataset.words import CACHES, CEILINGS
from matmul_sweep.experiment.plan.experiment import Experiment
from matmul_sweep.experiment.plan.settings import CPU, GPU
from matmul_sweep.experiment.verify.tasks import planned
from matmul_sweep.experiment.verify.verification import verification_shapes
from matmul_sweep.operations import parse_shape, shape_of
from matmul_sweep.operations.shapes import Shape

UNRIVALLED = 0.01  # of the points alone, at which no library could be timed

Point = tuple[Shape, str, str]  # with fill and mode
Named = tuple[str, ...]  # what a row is of


def incomplete(data: DataSet, catalogue: Catalogue) -> Iterator[str]:
    """Points, cache states, phases and kernels of the configuration that are missing, and points
    that are not in it."""
    configuration, summary = data.configuration, data["summary.csv"]
    points = [(shape_of(row), row.fill, row.mode) for row in summary.itertuples()]
    summary = summary.assign(point=points)
    for name in sorted({*summary.sweep, *data.sweeps}):
        if name not in data.sweeps:
            yield data.said("device.json", f"the configuration has no sweep {name}")
        sweep, rows = sweep_of(configuration, name), summary[summary.sweep == name]
        texts = sweep["shapes"] if takes_place(sweep, bool(data.device["gpu"])) else []
        shapes = [parse_shape(text, sweep["operation"]) for text in texts]
        wanted = set(itertools.product(shapes, sweep["fills"], sweep["modes"]))
        lists = [names for names in (sweep["kernels"], configuration["kernels"]) if names != "all"]
        asked = [{*map(kernel_name, names)} for names in lists] if wanted else []
        others = {own.name for own in catalogue.values() if own.operation != sweep["operation"]}
        for kernel in set.intersection(*asked) - {*rows.kernel} - others if asked else ():
            yield data.said("summary.csv", f"{name}: no row of {kernel}, which it measures")
        chosen = {"cold"} if sweep["cold"] != "all" else set()
        for variant, own in rows.groupby("variant"):
            caches = {*sweep["caches"]} - chosen if data.on_gpu(own).any() else set()
            for what in lacking_points(own, wanted, caches):
                yield data.said("summary.csv", f"{variant}, {name}: {what}")


def lacking_points(rows: pd.DataFrame, wanted: set[Point], caches: set[str]) -> Iterator[str]:
    """What the rows of a job lack: points, these `caches`, or what others of its points have of
    cache states and phases; and points that are not `wanted`."""
    found = rows.assign(span=rows.phase.where(rows.phase != "kernel", rows.cache))
    spans = found.groupby("point", sort=False).span.agg(set)
    for point in sorted({*spans.index} ^ wanted, key=str):
        yield f"{words(point)} {'is not in the configuration' if point in spans else 'is missing'}"
    timed = {*rows.point[(rows.phase == "kernel") & (rows.status == "ok")]}
    everywhere = caches.union(*spans)
    for point, own in spans.items():
        # Only a kernel that was launched has other phases; its cache states are always there.
        expected = everywhere if point in timed else everywhere & {*CACHES}
        if lost := expected - own:
            yield f"{words(point)} has no row of {min(lost)}"


def words(point: Point) -> str:
    return " ".join(map(str, point))


def unverified(data: DataSet, catalogue: Catalogue) -> Iterator[str]:
    """Variants that were timed without a verification, after one that failed or was left out, or
    that ran elsewhere. What a dispatch chooses nowhere is left out of its verification."""
    verification, timed = data["verification.csv"], data.timed
    passed = verification[verification.status == "ok"]
    yield from data.lacking("summary.csv", timed, "verification.csv", passed, ["variant"])
    choosing = {name for name, kernel in catalogue.items() if kernel.kind is Kind.DISPATCH}
    lost = (verification.status == "skipped") & ~verification.kernel.isin(choosing)
    lost |= verification.status == "failed"
    wrong = lost & verification.variant.isin(timed.variant)
    yield from data.rows("verification.csv", wrong, "status", "though the variant was timed")
    if data.device["gpu"]:
        summary = data["summary.csv"]
        on_gpu = verification.variant.isin(summary.variant[data.on_gpu(summary)])
        wrong = verification["where"] != np.where(on_gpu, "gpu", "cpu")
        yield from data.rows("verification.csv", wrong, "where", "not where the variant was timed")


def verified_at_few(data: DataSet, catalogue: Catalogue) -> Iterator[str]:
    """Variants that were timed and verified at less than a quarter of the shapes at which they are
    verified today; earlier versions had others around some tiles, and for what a dispatch chooses.
    """
    found = {(row.variant, shape_of(row)) for row in data["verification.csv"].itertuples()}
    known = {variant.name: variant for variant in catalogue.buildable.values()}
    for name in data.timed.variant.unique():
        shapes = verification_shapes(known[name], []) if name in known else []
        there = sum((name, shape) in found for shape in shapes)
        if 4 * there < len(shapes):
            what = f"{name} was verified at {there} of {len(shapes)} shapes"
            yield data.said("verification.csv", what)


def unlike_plan(data: DataSet, catalogue: Catalogue) -> Iterator[str]:
    """Rows that configuration, catalogue and card ask for and that are not there, and others: of
    which variants, at which shapes they were verified, and of which ceilings."""
    on_gpu, configuration = bool(data.device["gpu"]), data.configuration
    own = ["sm_" + data.device["compute_capability"].replace(".", "")] if on_gpu else []
    architectures = own or configuration["architectures"]
    run = Experiment(configuration, catalogue, GPU if on_gpu else CPU, tuple(architectures))
    measured = [(sweep, v.name) for sweep, own in run.jobs.items() for v in own.values()]
    verified = [(v.name, str(at)) for name in run.operations for v, at in planned(run, name)]
    jobs = data["summary.csv"].drop_duplicates(["sweep", "variant"]).itertuples()
    there = [(row.sweep, row.variant) for row in jobs]
    yield from unlike_rows(data, "summary.csv", there, measured)
    rows = [(row.variant, str(shape_of(row))) for row in data["verification.csv"].itertuples()]
    yield from unlike_rows(data, "verification.csv", rows, verified)
    if on_gpu:
        names = [(name,) for name in data["ceilings.csv"].name]
        yield from unlike_rows(data, "ceilings.csv", names, [(name,) for name in CEILINGS])


def unlike_rows(
    data: DataSet, kind: str, found: Sequence[Named], wanted: Sequence[Named]
) -> Iterator[str]:
    """Findings for rows of a table that are wanted and not found, or the other way round."""
    there, asked = Counter(found), Counter(wanted)
    for lost in asked - there:
        yield data.said(kind, f"{', '.join(lost)}: a row is missing, by the configuration")
    for more in there - asked:
        yield data.said(kind, f"{', '.join(more)}: a row that the configuration does not give")


def unknown_rivals(data: DataSet, catalogue: Catalogue) -> Iterator[str]:
    """Times of what the catalogue does not compare a kernel with."""
    samples = data[SAMPLES]
    pairs = samples[samples.baseline_of != ""][["variant", "baseline_of"]].drop_duplicates()
    known = {
        (rival.name, name)
        for name in pairs.baseline_of.unique()
        if (kernel := catalogue.get(kernel_name(name)))
        for rival in catalogue.rivals(kernel, alone=True)
    }
    judged = pairs[pairs.baseline_of.map(kernel_name).isin(catalogue)]
    strange = [(row.variant, row.baseline_of) not in known for row in judged.itertuples()]
    wrong = pd.Series(strange, judged.index)
    why = "no library that the catalogue compares the kernel with"
    yield from data.rows(SAMPLES, wrong, "variant", why)


def unrivalled(data: DataSet, catalogue: Catalogue, earlier: bool) -> Iterator[str]:
    """Times without those of the libraries beside them. In turn each of the catalogue's is there,
    of an earlier one each that the variant has elsewhere; alone at least the fastest, but for a few
    points: where the host was too busy for the library the others' rows stay."""
    ratios, timed = data["ratios.csv"], data.timed
    kernels = timed[(timed.phase == "kernel") & data.on_gpu(timed)].reset_index()
    rivals = {name: [v.name for v in catalogue.rivals(own)] for name, own in catalogue.items()}
    alone = kernels[(kernels.cache == "alone") & kernels.kernel.map(rivals).astype(bool)]
    key = [name for name in PAIR if name != "baseline"]
    if (~among(alone, ratios, key)).sum() > UNRIVALLED * len(alone):
        yield from data.lacking("summary.csv", alone.set_index("index"), "ratios.csv", ratios, key)
    wanted = ratios[ratios.cache != "alone"][["variant", "baseline"]]
    if not earlier:
        every = kernels[["variant"]].assign(baseline=kernels.kernel.map(rivals))
        wanted = pd.concat([wanted, every.explode("baseline").dropna()])
    in_turn = kernels[kernels.cache != "alone"].merge(wanted.drop_duplicates(), on="variant")
    yield from data.lacking("summary.csv", in_turn.set_index("index"), "ratios.csv", ratios, PAIR)
