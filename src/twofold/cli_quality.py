"""The commands that measure recall and tune it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from twofold import datasets, judged, output, scorecard
from twofold.cli_options import as_json, bar, database, existing
from twofold.evaluate import Evaluation, evaluate, steps
from twofold.memory import Memory
from twofold.settings import database as known_database
from twofold.tune import tune as choose_prior


@click.command(name="eval")
@click.argument("paths", metavar="DIR|FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--db", type=click.Path(path_type=Path), help="Folder that keeps the imported sets for the next time.")
@click.option("--category", "categories", multiple=True, help="Only the queries of this category; may be repeated.")
@click.option("--by-category", is_flag=True, help="Also a table for each category of queries.")
@click.option("--csv", "table", type=click.Path(path_type=Path), help="Write the table to this file as well.")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw a chart into this file: .png, .svg or .pdf.")
@as_json
def eval_(
    paths: tuple[Path, ...],
    db: Path | None,
    categories: tuple[str, ...],
    by_category: bool,
    table: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Measure every method on judged sets: folders with corpus, queries and qrels, or a folder of such.

    The figures are kept in your own store as well, if there is one, for the page to show.
    """
    if plot:
        scorecard.check_plot(plot)
    done: list[Evaluation] = []
    for place in [found for path in paths for found in datasets.locate(path)]:
        dataset = datasets.only(datasets.load(place), categories)
        with bar("rows and queries", steps(dataset)) as progress:
            done.append(evaluate(dataset, db, progress=progress))
        if not as_json:
            output.show(None, False, partial(scorecard.lines, done[-1], by_category))
    if known_database().exists():
        with Memory.open(embedder=None) as memory:
            memory.runs.add("eval", scorecard.as_run(done))
    if as_json:
        output.show(scorecard.as_json(done, by_category), True, list)
    if table:
        scorecard.write_csv(table, done, by_category)
    if plot:
        scorecard.plot(plot, done)


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--feedback", is_flag=True, help="Instead of FILE: what was said of hits, as twofold feedback lists.")
@click.option("--project", help="Project of the queries that name none; with --feedback only what was said in it.")
@click.option("--apply", is_flag=True, help="Use what was chosen, if it is shown better.")
@click.option("--undo", is_flag=True, help="Bring back what was used before the last --apply.")
@database
@as_json
def tune(
    file: Path | None, feedback: bool, project: str | None, apply: bool, undo: bool, db: Path | None, as_json: bool
) -> None:
    """Choose how recall fuses in this store by FILE, your own judged queries, a JSON object a line."""
    if (file is not None) + feedback + undo != 1 or (undo and apply):
        raise click.UsageError("name a file of judged queries, or say --feedback, or --undo alone")
    if undo:
        with Memory.open(existing(db)) as memory:
            prior = memory.set_prior(None)
        output.show(prior, as_json, lambda: [f"recall uses again: {output.prior(prior)}"])
        return
    with Memory.open(existing(db)) as memory:
        if file:
            heard, queries = None, list(judged.read(file, project))
        else:
            heard = judged.of_feedback(memory.feedback, project)
            queries = list(heard.queries)
            if not as_json:
                output.show(None, False, partial(output.heard, heard))  # first: it tells why there may be too few
        with bar("queries", len(queries)) as progress:
            result = choose_prior(memory, queries, apply=apply, progress=progress)
        verdict = list(output.tuning(result))[-1]
        memory.runs.add("tune", {"curve": result.curve, "chosen": result.chosen.keyword, "verdict": verdict})
    counts = {"leftOut": heard.left_out, "useless": heard.useless} if heard else {}
    output.show(output.plain(result) | counts, as_json, partial(output.tuning, result))


@click.command()
@click.option("--episodes", "sizes", type=int, multiple=True, help="Size of a store, 10000 if none; may be repeated.")
@click.option("--queries", type=int, default=200, show_default=True, help="Questions of each kind.")
@click.option("--seed", type=int, default=7, show_default=True, help="Another makes another history.")
@click.option("--db", type=click.Path(path_type=Path), help="Folder that keeps the stores for the next time.")
@as_json
def bench(sizes: tuple[int, ...], queries: int, seed: int, db: Path | None, as_json: bool) -> None:
    """Measure recall on this machine, in made-up stores: 10000 episodes take seconds, 1000000 minutes and gigabytes."""
    from twofold import bench as measured  # only this command needs them
    from twofold import benchtable

    sizes = sizes or (10_000,)
    measured.check(sizes, queries, seed)
    stores = []
    for size in sizes:
        with bar("steps", measured.steps(size, queries)) as progress:
            stores.append(measured.measure(size, queries, seed, db, progress=progress))
    report = output.plain(measured.Report(measured.machine(), seed, queries, tuple(stores)))
    output.show(report, as_json, lambda: benchtable.lines(report))
