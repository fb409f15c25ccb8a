"""The documents of dtrain as text: their code blocks, links and inline code.

A comment on the line above a code block controls how the block is run:

    <!-- run: slow -->             run by scripts/run_docs only, not by CTest
    <!-- run: no, REASON -->       not run
    <!-- run: exit 4 -->           ends with exit code 4; `slow, exit 4` are both
    <!-- file: PATH -->            written to PATH, below the document's directory
"""

import re
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
_MARK = re.compile(r"^<!-- (run|file): (.+?) -->$")
_FENCE = re.compile(r"^\s*```(.*)$")


@dataclass
class Block:
    """A fenced code block. `line` is the number of its first line of code, from 1."""
    document: str
    line: int
    language: str
    text: str
    run: str = ""
    file: str = ""

    @property
    def skipped(self) -> bool:
        return self.run.startswith("no,")

    @property
    def slow(self) -> bool:
        return "slow" in self.run.split(", ")

    @property
    def exit_code(self) -> int:
        found = re.search(r"\bexit (\d+)$", self.run)
        return int(found[1]) if found else 0

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"


def all_documents() -> list[str]:
    """Returns README.md, CONTRIBUTING.md and the pages of docs/, as paths from the repository's
    root."""
    pages = sorted((REPOSITORY / "docs").rglob("*.md"))
    return ["README.md", "CONTRIBUTING.md", *(str(it.relative_to(REPOSITORY)) for it in pages)]


def read(document: str) -> str:
    return (REPOSITORY / document).read_text(encoding="utf-8")


def blocks(document: str, text: str) -> list[Block]:
    """Returns the code blocks of `text`; raises ValueError for an unknown mark."""
    found: list[Block] = []
    current: Block | None = None
    marks: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        fence = _FENCE.match(line)
        if current is not None:
            if fence:
                found.append(current)
                current = None
            else:
                current.text += line + "\n"
        elif fence:
            current = Block(document, number + 1, fence[1].strip(), "", **marks)
            marks = {}
        elif mark := _MARK.match(line):
            if mark[1] == "run" and not re.fullmatch(r"no, .+|slow(, exit \d+)?|exit \d+", mark[2]):
                raise ValueError(f"{document}:{number}: unknown mark 'run: {mark[2]}'")
            marks[mark[1]] = mark[2]
        elif marks and line.strip():
            raise ValueError(f"{document}:{number}: no code block below the mark {marks}")
    if current is not None:
        raise ValueError(f"{document}:{current.line}: a code block without an end")
    return found


def prose(text: str) -> list[tuple[int, str]]:
    """Returns the numbered lines of `text` outside of code blocks."""
    lines, inside = [], False
    for number, line in enumerate(text.splitlines(), start=1):
        if _FENCE.match(line):
            inside = not inside
        elif not inside:
            lines.append((number, line))
    return lines


def console_commands(block: Block) -> list[tuple[str, list[str]]]:
    """Returns the commands of a console block, each with the lines shown below it. A command starts
    with "$ " and continues on lines with "> "."""
    commands: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            commands.append((line[2:], []))
        elif line.startswith("> ") and commands and not commands[-1][1]:
            commands[-1] = (f"{commands[-1][0]}\n{line[2:]}", [])
        elif commands:
            commands[-1][1].append(line)
    if not commands:
        raise ValueError(f"{block.place}: no command after '$ '")
    return commands


def heading_anchors(text: str) -> set[str]:
    """Returns the anchors of GitHub for the headings of `text`."""
    anchors = set()
    for _, line in prose(text):
        if heading := re.match(r"^#+ (.*)$", line):
            words = re.sub(r"[^\w\- ]", "", heading[1].strip().lower())
            anchors.add(words.replace(" ", "-"))
    return anchors
