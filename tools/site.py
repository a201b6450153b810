"""What `mkdocs.yml` asks of Python: pages that are written elsewhere, and links as they are on the site.

README, CONTRIBUTING and CHANGELOG stay where a checkout has them; the reference follows from the packages: every public
name, every command's help, every table's columns. Experiments and decisions are found by being there.
"""

from __future__ import annotations

import posixpath
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

PROJECT = Path(__file__).resolve().parents[1]
MOVED = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages that lie beside `docs/`, and what they are called on the site."""
TOPICS = {
    "baseline": "Baseline of the study",
    "contrib01": "Fewer cycles at the start (contrib01)",
    "contrib02": "Exploration over training (contrib02)",
    "contrib03": "Depth of recursion (contrib03)",
    "contrib04": "Auxiliary losses (contrib04)",
    "contrib05": "Window attention (contrib05)",
    "contrib06": "Mixture of two puzzles (contrib06)",
    "data_arc1": "Number of ARC tasks",
    "data_maze": "Number of mazes",
    "exp01": "Network width (exp01)",
    "exp02a": "Latent updates, L (exp02a)",
    "exp02b": "Answer updates, H (exp02b)",
    "exp03": "Layers or recursion (exp03)",
    "exp04a": "Number of puzzles (exp04a)",
    "exp04b": "Number of augmentations (exp04b)",
    "exp05": "Supervision steps (exp05)",
    "exp06": "Batch size (exp06)",
    "exp07": "Precision (exp07)",
    "exp08": "Parameter averaging (exp08)",
    "exp09": "Optimizer (exp09)",
    "exp10": "Learning rate (exp10)",
    "maze_symmetry": "Maze augmentation",
    "miniature": "Results of the study in miniature",
    "networks": "Networks at equal FLOPs",
    "quickstart": "Quickstart",
    "quickstart_width": "Width of the quickstart",
    "recipes": "Published recipes",
}
"""Titles in the navigation of the pages of experiments, by file name."""
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
COMMANDS = re.compile(r"^usage: [^{╭]*\{([a-z0-9,\s-]+)\}")
COMMENT = re.compile(r"^<!-- (?:run|not run|checkout|for show).*-->\n", re.M)
ELSEWHERE = ("https://", "http://", "mailto:", "#")
PUBLIC = {
    "trm_data": ("trm_data.kinds.own.OwnKind", "trm_data.kinds.base.Kind", "trm_data.errors"),
    "trm_train": (
        "trm_train.config.run.RunConfig",
        "trm_train.config.data.DataConfig",
        "trm_train.config.model.ModelConfig",
        "trm_train.config.optim.OptimConfig",
        "trm_train.config.run.ExecutionConfig",
        "trm_train.experiments.registry.experiment",
        "trm_train.experiments.registry.load_experiments",
        "trm_train.experiments.guide.Guide",
        "trm_train.training.loop.train",
        "trm_train.runs.record.list_runs",
        "trm_train.runs.record.find_run",
        "trm_train.runs.record.read_record",
        "trm_train.model.base.Network",
        "trm_train.errors",
    ),
    "trm_eval": ("trm_eval.statistics.*", "trm_eval.errors"),
}
"""Names of the reference, by package, besides those of its `__all__`; `.*` are those of a module's."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the parts of the navigation that follow from the files."""
    docs = Path(config.docs_dir)
    experiments = [
        {TOPICS.get(path.stem, path.stem): f"experiments/{path.name}"}
        for path in sorted((docs / "experiments").glob("*.md"))
        if path.name != "README.md"
    ]
    decisions = sorted(path.name for path in (docs / "decisions").glob("0*.md"))
    fill = {
        "Experiments": ["experiments/README.md", *experiments],
        "Decisions": ["decisions/index.md", *(f"decisions/{name}" for name in decisions)],
    }

    def filled(items: list[Any]) -> None:
        for item in items:
            for name, pages in item.items() if isinstance(item, dict) else ():
                if name in fill:
                    item[name] = fill[name]
                elif isinstance(pages, list):
                    filled(pages)

    filled(config.nav or [])
    return config


AFTER_GUIDES = "---\nsearch:\n  boost: 0.5\n---\n\n"
"""Front matter of a page that the search lists after the guides."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that do not lie in `docs/`."""
    from mkdocs.structure.files import File

    pages = {name: (PROJECT / source).read_text("utf-8") for source, name in MOVED.items()}
    reference = {f"reference/{package}.md": names_page(package) for package in PUBLIC}
    reference |= {"reference/commands.md": commands_page(), "reference/tables.md": tables_page()}
    pages |= {name: AFTER_GUIDES + text for name, text in reference.items()}
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """A page whose links are those of the site, without the notes to the tests of its commands."""
    name = page.file.src_uri
    source = next((source for source, moved in MOVED.items() if moved == name), f"docs/{name}")
    return LINK.sub(lambda link: as_on_the_site(link, source, name), COMMENT.sub("", markdown))


def as_on_the_site(link: re.Match[str], source: str, name: str) -> str:
    """A link of a file of the checkout as the page that is made of it has it; to code it is no link."""
    mark, text, target = link.groups()
    if target.startswith(ELSEWHERE):
        return link[0]
    path, hash_, anchor = target.partition("#")
    meant = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if meant in MOVED:
        there = MOVED[meant]
    elif meant.startswith("docs/"):
        there = meant.removeprefix("docs/")
        if there == "decisions":
            there = "decisions/index.md"
    elif (PROJECT / meant).exists():
        return text if "`" in text else f"`{text}`"
    else:
        return link[0]  # which the build names
    return f"{mark}[{text}]({posixpath.relpath(there, posixpath.dirname(name) or '.')}{hash_}{anchor})"


def names_page(package: str) -> str:
    """The public names of a package."""
    module = import_module(package)
    names = [f"{package}.{name}" for name in getattr(module, "__all__", ())]
    for name in PUBLIC[package]:
        of = name.removesuffix(".*")
        names += [name] if of == name else [f"{of}.{each}" for each in import_module(of).__all__]
    first = (module.__doc__ or "").partition("\n")[0]
    return "\n".join([f"# {package}", "", first, "", *(f"::: {name}\n" for name in names)])


def commands_page() -> str:
    """What every command says of itself."""
    parts = ["# Commands", "", "What `--help` says of each."]

    def add(*words: str) -> None:
        said = help_of(*words)
        lines = [line.rstrip() for line in said.strip().splitlines()]
        parts.extend(["", f"{'#' * (len(words) + 1)} {' '.join(words)}", "", "```text", *lines, "```"])
        if "─ subcommands ─" in said:
            found = COMMANDS.match(said)
            for command in re.split(r"[,\s]+", found[1].strip(", \n")) if found else ():
                add(*words, command)

    for program in ("trm-data", "trm-train", "trm-eval"):
        add(program)
    return "\n".join(parts) + "\n"


def help_of(*words: str) -> str:
    """What a command prints of itself, at 100 columns, without colours."""
    command = [Path(sys.executable).with_name(words[0]), *words[1:], "--help"]
    environment = {"PATH": "/usr/bin:/bin", "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


def tables_page() -> str:
    """The tables that SQL can ask, with the comment of every column."""
    from trm_eval.tables.views import list_views

    parts = [
        "# Tables",
        "",
        "What `trm-eval sql` can ask: runs, results, and datasets.",
    ]
    for view in list_views().values():
        rows = (
            f"| `{each.name}` | `{each.type}` | {each.comment.replace('|', '/')} |" for each in view.columns
        )
        parts += [
            "",
            f"## {view.name}",
            "",
            view.says,
            "",
            "| column | type | what it says |",
            "|---|---|---|",
            *rows,
        ]
    return "\n".join(parts) + "\n"
