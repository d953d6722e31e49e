"""The documentation builds without a network, and every file, link, command, flag and key that it names exists."""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from markdown.extensions.toc import slugify

from coevolve.cli import parser
from coevolve.commands.params import keys
from coevolve.commands.params import page as parameters_page
from tests import ROOT
from tests.pages import INLINE, PAGES, snippets

ROOMS = "core|environments|words|endpoint|stages|lineage|rollouts|tracking|commands|prompts|profiles"
NAMED = re.compile(rf"`((?:tests|benchmarks|pipelines|studies|examples|src/coevolve|{ROOMS})/[\w/.-]*)`")
MODULE = re.compile(r"(?<![\w/.])((?:[\w-]+/)*[a-z]\w*\.py)\b")
HISTORY = re.compile(r"`[^`\n]*?([\w-]+/[\w/-]+\.py)[^`\n]*`\s+of\s+commit\s+([0-9a-f]{7,40})\b")  # FILE of commit HASH
FORMER = re.compile(r"`[^`\n]+`\s+of\s+commit\s+[0-9a-f]{7,40}\b")  # FILE or KEY of commit HASH
COMMAND = re.compile(r"(?:^|[;|&(] *)(?:[A-Z_]+=\S+ )*(coevolve|make|dvc) (.*)")
EXAMPLE = {"ipo.beta"}  # of the learner in examples/ipo
YOURS = {"stock/stock.py", "my_env.py"}  # files that the reader of a page writes
KEY = re.compile(r"([a-z_]+(?:\.[a-z_]+)+)(?:: .*)?")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
ENTRY = re.compile(r"^\| .+ \| `([\w/]+\.\w+)` \| `(\w+)` \|$", re.MULTILINE)  # of "where is what"
DEFINED = re.compile(
    r"`([\w/]+/\w+\.py)`\s+\(`(?:\w+\.)?(\w+)`\)|`(?:\w+\.)?(\w+)`\s+\(`([\w/]+/\w+\.py)`\)"
)  # FILE (NAME), and the reverse

WORDS = re.compile(r"\S*\w\S*")
REFERENCE = re.compile(  # these pages are looked up, not read: they may be longer
    r"(?:environments-catalog|your-own-environment|your-trainer|python|evidence|architecture|cluster|commands|limitations|measured|"
    r"findings/.*|experiments/.*)\.md"
)

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def commands(text: str, program: str) -> Iterator[list[str]]:
    """The words after ``program`` in each command of a page."""
    for snippet in snippets(text):
        code = re.split(r"(?:^| )# ", snippet)[0]
        for name, rest in COMMAND.findall(code):
            if name == program:
                yield rest.split()


def unknown(words: list[str], here: argparse.ArgumentParser) -> list[str]:
    """The subcommand or flags among ``words`` that the command lacks. Upper case stands for any word."""
    names = [word for word in words if not word.startswith("-")]
    while names and (nested := [one for one in here._actions if isinstance(one, argparse._SubParsersAction)]):
        name = names.pop(0)
        if name.isupper():
            return []
        if name not in nested[0].choices:
            return [name]
        here = nested[0].choices[name]
    flags = [word.partition("=")[0] for word in words if word.startswith("--")]
    return [flag for flag in flags if flag not in here._option_string_actions]


def all_flags(here: argparse.ArgumentParser) -> set[str]:
    nested = [one for one in here._actions if isinstance(one, argparse._SubParsersAction)]
    return {
        *here._option_string_actions,
        *(flag for one in nested for sub in one.choices.values() for flag in all_flags(sub)),
    }


def dotted(values: dict[str, Any]) -> set[str]:
    """Every key of nested ``values`` and every section."""
    inner = {f"{name}.{key}" for name, value in values.items() if isinstance(value, dict) for key in dotted(value)}
    return {*values, *inner}


def all_keys() -> set[str]:
    """Every key of params.yaml and every section that holds keys, dotted."""
    names = {key.name for key in keys()}
    names |= {f"{key.name}.{inner}" for key in keys() if isinstance(key.default, dict) for inner in dotted(key.default)}
    return {".".join(name.split(".")[:depth]) for name in names for depth in range(1, name.count(".") + 2)}


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_a_page_is_short_and_wraps(page: Path) -> None:
    """`parameters.md` is generated. Tables, links and code may be wider than 100 columns."""
    text, name = page.read_text(encoding="utf-8"), page.relative_to(ROOT / "docs").as_posix()
    if name != "parameters.md":
        assert len(WORDS.findall(text)) <= (1500 if REFERENCE.fullmatch(name) else 800)
        prose = re.sub(r"^```.*?^```|^ {4}.*?$", "", text, flags=re.MULTILINE | re.DOTALL).splitlines()
        assert [line for line in prose if len(line) > 100 and not line.startswith(("|", "!", "#", "    "))] == []


def test_the_documentation_has_few_pages() -> None:
    assert len(list((ROOT / "docs").rglob("*.md"))) <= 36


def leaves(value: Any) -> int:
    return sum(map(leaves, value.values())) if isinstance(value, dict) else 1


def test_site_builds_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for page in tmp_path.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|img|link|iframe)[^>]*(?:src|href)=\"([^\"]*)\"", page.read_text(encoding="utf-8")
        )
        assert [one for one in loaded if one.startswith(("http", "//"))] == []
    for style in tmp_path.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", style.read_text(encoding="utf-8")), style


@every_page
def test_named_files_exist(page: Path) -> None:
    """By path in the repository or in src/coevolve. A bare module name may be anywhere."""
    text = FORMER.sub("", page.read_text(encoding="utf-8"))
    bases = (ROOT, ROOT / "src", ROOT / "src/coevolve")
    modules = {
        file.name for base in ("src", "tests", "pipelines", "benchmarks") for file in (ROOT / base).rglob("*.py")
    }
    names = {name for name in (*NAMED.findall(text), *MODULE.findall(text)) if "NAME" not in name} - YOURS
    missing = [name for name in names if name not in modules and not any((base / name).exists() for base in bases)]
    assert sorted(missing) == []


def in_git(name: str) -> bool:
    return subprocess.run(["git", "cat-file", "-e", name], cwd=ROOT, stderr=subprocess.DEVNULL).returncode == 0


@every_page
def test_files_named_with_a_commit_exist_in_that_commit(page: Path) -> None:
    """Only if the repository has the commit, because a clone may be shallow."""
    named = HISTORY.findall(page.read_text(encoding="utf-8"))
    missing = [f"{commit}:{path}" for path, commit in named if in_git(commit) and not in_git(f"{commit}:{path}")]
    assert missing == []


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for path, heading in LINK.findall(page.read_text(encoding="utf-8")):
        target = page.parent / path if path else page
        if not target.exists():
            broken.append(path)
        elif heading:
            titles = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            broken += [f"{path}#{heading}"] if heading not in {slugify(title, "-") for title in titles} else []
    assert broken == []


@every_page
def test_named_commands_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    flaws = [flaw for words in commands(text, "coevolve") for flaw in unknown(words, parser())]
    flaws += {one for one in snippets(text) if re.fullmatch(r"--[a-z-]+", one)} - all_flags(parser())
    assert flaws == []


@every_page
def test_named_make_targets_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    known = {*re.findall(r"^([a-z-]+):", makefile, re.MULTILINE), *re.findall(r"\b([A-Z_]+)\b", makefile)}
    named = [word.partition("=")[0] for words in commands(page.read_text(encoding="utf-8"), "make") for word in words]
    assert [name for name in named if name not in known] == []


@every_page
def test_named_keys_exist(page: Path) -> None:
    """`-S KEY` changes an existing key of params.yaml. `-S ++KEY` sets any key."""
    known, text = all_keys(), FORMER.sub("", page.read_text(encoding="utf-8"))
    named = [match[1] for span in INLINE.findall(text) if (match := KEY.fullmatch(span))]
    files = (".py", ".jsonl", ".json", ".md", ".yaml")
    named = [key for key in named if key.split(".")[0] in known and not key.endswith(files)]
    words = [word for line in commands(text, "dvc") for flag, word in pairwise(line) if flag == "-S"]
    settings = [word.partition("=")[0] for word in words if not word.isupper()]
    any_key = [key.removeprefix("++") for key in settings if key.startswith("++")]
    assert [key for key in [*named, *any_key] if key not in known | EXAMPLE and not key.isupper()] == []
    present = dotted(yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8")))
    changed = [key for key in settings if not key.startswith("++") and not key.isupper()]
    assert [key for key in changed if key not in present] == [], "params.yaml has no such key: write ++KEY"


def test_parameters_page_equals_the_commands_output() -> None:
    written = (ROOT / "docs/parameters.md").read_text(encoding="utf-8")
    assert written == parameters_page(), "run `coevolve params --markdown > docs/parameters.md`"


def test_params_yaml_has_at_most_fifty_keys() -> None:
    params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    assert leaves(params) <= 50


def test_learner_example_on_the_page_equals_its_file() -> None:
    page = (ROOT / "docs/your-own-learner.md").read_text(encoding="utf-8")
    assert (ROOT / "examples/ipo/ipo.py").read_text(encoding="utf-8") in page


def defines(file: str, name: str) -> bool:
    source = next(base / file for base in (ROOT / "src/coevolve", ROOT) if (base / file).exists())
    defined = rf"(?:def |class |^|\s){name}\b(?:\(|:| =)"
    return re.search(defined, source.read_text(encoding="utf-8"), re.MULTILINE) is not None


@every_page
def test_definitions_named_with_a_file_exist_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    entries = {*ENTRY.findall(text), *((one or two, name or other) for one, name, other, two in DEFINED.findall(text))}
    assert [entry for entry in sorted(entries) if not defines(*entry)] == []
    assert len(entries) >= 15 or page.name != "CONTRIBUTING.md"


def test_every_arm_named_on_the_page_is_in_the_study() -> None:
    from studies.study_results import load

    arms = set(load(ROOT / "studies/ablation/study.yaml").arms)
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    cells = [cell for line in text.splitlines() for cell in line.split("|") if cell.strip().startswith("arm")]
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert named and named <= arms
