"""Messages, help texts, docstrings and docs use plain English: phrases that must not occur, with their better form."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# A phrase as a regular expression (a space is any white space), and what to write instead.
PHRASES = {
    r"weather": "a transient error; fails with a transient error and is retried",
    r"told": "reported; stated; known",
    r"(tell|tells|telling)\b(?! (\S+ ){0,9}(apart|from)\b)": "report, return, show; `Return whether` in a docstring",
    r"cannot be told": "is not known",
    r"anew": "again; rebuilt",
    r"(?<!there )(is|are|was|were) no(?= )(?! (longer|more|less|such)\b)": "is not a …; must be …, got …",
    r"somebody|someone|anybody|anyone|everybody|nobody|no one": "name the actor: another run, a reader, no step",
    r"whoever": "name the actor: the process that takes over, the next run",
    r"(that|what|while|if|when) others|others (wrote|write|kept|publish|commit|work)|(on|of) others": "name the actor",
    r"(is|are) others": "is different; differ",
    r"(go|goes|going|went) on": "continue; `next:` in a message",
    r"(?<!and )(?<!is )safe: ": "unchanged: …",
    r"fired double|fires double": "triggered twice",
    r"(killed|fail|fails|failed|ended|died|is|swapped|cut off) halfway(?! through)": "halfway through; partly",
    r"(jobs|files|runs|tables|rows) of before": "existing jobs; earlier runs",
    r"(said|says) no(?=$|[.;,:])": "returned False; refused",
    r"sick": "failing",
    r"by and large": "approximately (relative 1e-9)",
    r"what lies|whatever lies": "what is in; the rows of",
    r"going easy|go easy": "limit the load",
    r"the question that": "the request",
    r"needs a yes": "needs a confirmation",
    r"in vain": "without success",
    r"at the most": "at most",
    r"(is|are) there already": "already exists",
    r"mend|mends|mended": "fix; fixed",
    r"changes? of code": "code change",
    r"(?-i:Say)": "return, report, give, declare",
    r"say that": "mark; state that; return an error that",
    r"(say|says|said) (--|which one|which:)": "give",
    r"something unexpected happened": "an unexpected error occurred",
    r"(exists|ended|undone|runs|landed) already": "already exists; has already ended; is already running",
    r"does not go with": "cannot be combined with",
    r"make (room|space)": "free some space",
    r"unseen": "out of sight",
    r"again from the start": "rebuilt; from the beginning",
    r"you say nothing": "by default",
    r"heard of": "reported its heartbeat",
    r"a wrong word": "an unknown name",
}

# Texts in which a phrase is meant as it is written, each with its reason.
EXCEPTIONS: dict[str, str] = {}

# Generated from docstrings that are read here, and from sample jobs.
GENERATED = ROOT / "docs" / "rules"

PATTERNS = {
    phrase: re.compile(rf"(?<!`)\b(?:{phrase})" + (r"\b" if phrase[-1].isalpha() else ""), re.IGNORECASE)
    for phrase in PHRASES
}
ANY = re.compile("|".join(pattern.pattern for pattern in PATTERNS.values()), re.IGNORECASE)


def python_texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the strings of a module with their lines: an f-string as one text, with its values as `{}`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield (
                node.lineno,
                "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values),
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.lineno, node.value


def texts(path: Path) -> Iterator[tuple[int, str]]:
    if path.suffix == ".py":
        yield from python_texts(path)
    else:
        yield 1, path.read_text(encoding="utf-8")


def found_in(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the phrases of a text: how many lines below its first, as written, and the better form."""
    words = re.findall(r"\s+|\S+", text)
    squeezed = "".join(" " if word.isspace() else word for word in words)
    below = [word.count("\n") for word in words for _ in (" " if word.isspace() else word)]
    for phrase, pattern in PATTERNS.items() if ANY.search(squeezed) else ():
        for match in pattern.finditer(squeezed):
            yield sum(below[: match.start()]), match[0], PHRASES[phrase]


def pages() -> list[Path]:
    found = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
    found += [path for path in (ROOT / "docs").rglob("*.md") if not path.is_relative_to(GENERATED)]
    found += [path for path in (ROOT / "src").rglob("*") if path.suffix in {".py", ".txt", ".toml"}]
    found += [path for path in (ROOT / "examples").rglob("*") if path.suffix in {".py", ".toml"}]
    return sorted(found)


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def folder(path: Path) -> str:
    """Group modules by package, so that one test reports a whole package."""
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[:3]) if parts[0] == "src" else "/".join(parts[:2])


@pytest.mark.parametrize("place", sorted({folder(path) for path in pages()}))
def test_texts_use_plain_words(place: str) -> None:
    found = [
        f"{name(path)}:{line + below}: {words!r}: better: {better}"
        for path in pages()
        if folder(path) == place
        for line, text in texts(path)
        for below, words, better in found_in(text)
        if not any(allowed in text for allowed in EXCEPTIONS)
    ]
    assert not found, "\n" + "\n".join(found)


def test_every_exception_is_needed() -> None:
    everything = "\n".join(text for path in pages() for _, text in texts(path))
    assert [text for text in EXCEPTIONS if text not in everything] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("it fails as weather", ["weather"]),
        ("the step is\ntold so", ["told"]),
        ("3 is no duration", ["is no"]),
        ("there is no step 'x'", []),
        ("the two can tell them apart", []),
        ("it was killed halfway through", []),
        ("retold", []),
    ],
)
def test_phrases_are_found_as_words(text: str, words: list[str]) -> None:
    assert [found for _, found, _ in found_in(text)] == words


def test_an_f_string_is_read_as_one_text(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('raise ValueError(\n    f"{name} is "\n    f"no gate"\n)\n', encoding="utf-8")
    assert [text for _, text in texts(module)] == ["{} is no gate"]
