"""Commands on whole histories: import, export, backup and restore."""

from __future__ import annotations

import gc
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

import click

from twofold import archive, history, output
from twofold import export as export_
from twofold.cli_options import as_json, database, existing, in_project, in_session
from twofold.errors import ImportFailed, InvalidInput
from twofold.history import Reading, Wanted
from twofold.importers import KINDS, Losses, size
from twofold.memory import Memory
from twofold.settings import database as known_database
from twofold.writer import Progress

GC_OBJECTS = 200_000


@click.command(name="import")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--as", "kind", type=click.Choice(KINDS), help="Read as this kind instead of looking at the content.")
@click.option("--project", help="Put the sessions into this project.")
@click.option("--since", type=click.DateTime(["%Y-%m-%d"]), help="Leave out what was said before this day (UTC).")
@click.option("--all-branches", is_flag=True, help="Also take the abandoned branches of edited conversations, marked.")
@click.option("--no-embed", is_flag=True, help="Leave the vectors for later: twofold embed.")
@click.option("--dry-run", is_flag=True, help="Read everything, store nothing, and say what would come of it.")
@database
@as_json
def import_(
    paths: tuple[Path, ...],
    kind: str | None,
    project: str | None,
    since: datetime | None,
    all_branches: bool,
    no_embed: bool,
    dry_run: bool,
    db: Path | None,
    as_json: bool,
) -> None:
    """Bring in histories: files, account zips, folders of logs or notes. What is there already stays or is renewed."""
    wanted = Wanted(kind, project, since and since.replace(tzinfo=timezone.utc), all_branches)
    next(history.messages(paths, wanted, Losses()), None)  # a file that is none must not make a database
    gc.freeze()  # what is parsed has no cycles: looking for some takes a tenth of the time
    gc.set_threshold(GC_OBJECTS)
    with _store(db, dry_run) as memory, _reading(paths) as reading, _embedding(memory) as embedding:
        done = history.bring_in(
            memory,
            paths,
            wanted,
            dry_run=dry_run,
            embed=not no_embed,
            reading=reading,
            embedding=embedding,
        )
    output.show(done, as_json, lambda: output.brought(done, dry_run))
    if done.failed:
        raise ImportFailed(f"{done.failed}; what comes before it is {'readable' if dry_run else 'stored'}")


@click.command()
@in_project
@in_session
@click.option("--format", "kind", type=click.Choice(export_.FORMATS), default="jsonl", show_default=True)
@click.option("--with-vectors", is_flag=True, help="Also the vectors, so that they need not be made again (jsonl).")
@click.option(
    "--output",
    "-o",
    "path",
    type=click.Path(path_type=Path),
    help="File to write, or for Markdown a new folder with a file for each session; else standard output.",
)
@database
def export(
    project: str | None,
    session: str | None,
    kind: export_.Format,
    with_vectors: bool,
    path: Path | None,
    db: Path | None,
) -> None:
    """Write out all that is remembered: JSONL that `import` turns into an equal store, Markdown, or OpenAI messages."""
    if with_vectors and kind != "jsonl":
        raise InvalidInput(f"{kind} has no place for vectors; leave out --with-vectors, or take the format jsonl")
    with Memory.open(existing(db), embedder=None) as memory:
        records = memory.archive.export(project=project, session=session, vectors=with_vectors)
        if kind == "markdown" and path:
            written = export_.write_folder(records, path)
            click.echo(f"wrote {written:,} sessions into {path}", err=True)
        elif path:
            with export_.whole_file(path) as file:
                file.writelines(export_.text(records, kind))
        else:
            for piece in export_.text(records, kind):
                sys.stdout.write(piece)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@database
@as_json
def backup(file: Path, db: Path | None, as_json: bool) -> None:
    """Copy the whole store to a new file, at one moment, while others go on writing."""
    with Memory.open(existing(db), embedder=None) as memory:
        memory.archive.backup(file)
    size = file.stat().st_size
    said = f"wrote {file} ({size:,} bytes); bring it back with: twofold restore {file}"
    output.show({"path": str(file), "bytes": size}, as_json, lambda: [said])


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="In the place of the store that is there, which is gone then.")
@database
@as_json
def restore(file: Path, force: bool, db: Path | None, as_json: bool) -> None:
    """Check a backup, and make it the store."""
    target = db or known_database()
    archive.restore(file, target, force=force)
    with Memory.open(target, embedder=None) as memory:
        state = memory.status()
    said = f"restored {state.episodes:,} episodes in {state.sessions:,} sessions to {target}"
    output.show(state, as_json, lambda: [said])


@contextmanager
def _store(db: Path | None, dry_run: bool) -> Iterator[Memory]:
    """The store that is written to; for a dry run one that is thrown away where there is none yet."""
    if dry_run and not (db or known_database()).exists():
        with tempfile.TemporaryDirectory() as folder, Memory.open(Path(folder) / "dry.db") as memory:
            yield memory
        return
    with Memory.open(db) as memory:
        yield memory


@contextmanager
def _embedding(memory: Memory) -> Iterator[Progress]:
    """A bar for the vectors that follow, on stderr, when that is a terminal."""
    from tqdm import tqdm

    with tqdm(unit=" vectors", delay=1, disable=None, file=sys.stderr) as shown:

        def tell(done: int) -> None:
            if not shown.total:
                shown.reset(done + memory.status().waiting)  # its time begins now, not with the reading
            shown.update(done - shown.n)

        yield tell


@contextmanager
def _reading(paths: tuple[Path, ...]) -> Iterator[Reading]:
    """A bar for what was read, with messages a second, on stderr, when that is a terminal; time left if it is known."""
    from tqdm import tqdm

    sizes = [size(path) for path in paths]
    total = None if None in sizes else sum(one or 0 for one in sizes)
    shape = "{percentage:3.0f}%|{bar}| {desc} [{elapsed}<{remaining}]" if total else "{desc} [{elapsed}]"
    with tqdm(total=total, delay=1, disable=None, file=sys.stderr, bar_format=shape) as shown:

        def tell(messages: int, read: int) -> None:
            rate = messages / max(shown.format_dict["elapsed"], 1e-9)
            shown.set_description_str(f"{messages:,} messages, {rate:,.0f}/s", refresh=False)
            shown.update(read - shown.n)

        yield tell
