#!/usr/bin/env python3
"""Tests that everything that the documents name exists: files and headings, commands of dtrain
and their options, keys of the YAML, tests.

    tests/docs/names_test.py DTRAIN"""

import json
import re
import subprocess
import sys
import unittest
from functools import cache
from pathlib import Path

import documents
from documents import REPOSITORY

DTRAIN = ""
_INLINE = re.compile(r"(`+)(.+?)\1", re.DOTALL)
_OPTION = re.compile(r"(?<![\w/.=-])(--?[a-z][a-z-]*)")
_FOLDERS = "cli|configs|docs|engine|models|scripts|searchers|tests"
_PATH = re.compile(rf"^(?:{_FOLDERS})/[\w./*{{}},…-]*$")
_KEY = re.compile(r"^[a-z_]+(\.[a-z_]+)+$")
_TEST = re.compile(r"\b(?!GoogleTest)([A-Z][a-z]\w*Test)\b(?:\.(\w+)(…?))?")


# ---- what exists

@cache
def help_of(*command: str) -> str:
    done = subprocess.run([DTRAIN, *command, "--help"], check=True, text=True,
                          capture_output=True)
    return done.stdout


@cache
def commands() -> set[str]:
    """Commands that the help lists, and `activate`, the other name of resume."""
    return {*re.findall(r"^  ([a-z][a-z-]*)  ", help_of(), re.MULTILINE), "activate"}


@cache
def subcommands(command: str) -> set[str]:
    _, _, listed = help_of(command).partition("\nSubcommands:\n")
    return set(re.findall(r"^  ([a-z][a-z-]*)  ", listed, re.MULTILINE))


def options_in(text: str) -> set[str]:
    return set(_OPTION.findall(text))


@cache
def options_of(*command: str) -> set[str]:
    """Options of a command, and the global ones."""
    named = set()
    for line in (help_of() + help_of(*command)).splitlines():
        names = re.match(r"  (-[a-z-]+)(?:, (--[a-z-]+))?", line)
        named |= set(names.groups()) - {None} if names else set()
    return named


@cache
def determined_commands() -> dict[str, str]:
    """Commands of Determined's CLI, such as "e list", and those of dtrain that they run."""
    found = {}
    for group in ("experiment", "trial", "slot"):
        listed, _, _ = help_of(group).partition("\nNot in dtrain:")
        for names, command in re.findall(r"^  ([a-z][a-z, -]*?)  +([a-z].*)$", listed, re.MULTILINE):
            for name in names.split(", "):
                found[f"{group} {name}"] = found[f"{group[0]} {name}"] = command
    return found


@cache
def determined_options() -> set[str]:
    """Options of Determined's CLI that commands of dtrain accept or explain."""
    text = (REPOSITORY / "cli" / "determined.cc").read_text(encoding="utf-8")
    named = re.findall(r'^    \{"[a-z ]+", "(--[^"]+)"', text, re.MULTILINE)
    return {option for names in named for option in names.split()}


def in_own_words(words: list[str]) -> list[str]:
    """Returns the words of a call with names of Determined's CLI replaced; [] if one is unknown."""
    if words[0] not in ("experiment", "e", "trial", "t", "slot", "s"):
        return words
    for count in (3, 2):
        command = determined_commands().get(" ".join(words[:count]))
        if command:
            return [*(it for it in command.split() if not it.startswith("-")), *words[count:]]
    return words[:1] if words[1:] == ["--help"] else []


@cache
def every_option() -> set[str]:
    """Returns the options of all commands, and those that scripts and test programs read."""
    named = set(determined_options())
    for command in commands():
        named |= options_of(command)
        for sub in subcommands(command):
            named |= options_of(command, sub)
    for folder in ("scripts", "tests/crash", "tests/power"):
        for file in (REPOSITORY / folder).iterdir():
            if file.is_file():
                named |= options_in(re.sub(r"[\"'|)(\[]", " ", file.read_text(errors="replace")))
    return named


@cache
def yaml_keys() -> set[str]:
    """Returns the keys of docs/yaml.md, which another test compares with the program."""
    rows = re.findall(r"^\| `([\w.]+)` \|", documents.read("docs/yaml.md"), re.MULTILINE)
    return set(rows)


@cache
def test_sources() -> str:
    files = [*(REPOSITORY / "tests").rglob("*.cc"), *(REPOSITORY / "tests").rglob("*.h")]
    return "\n".join(it.read_text(encoding="utf-8", errors="replace") for it in files)


# ---- what a document names

def inline_code(text: str):
    """Yields each piece of inline code with its line; a piece may span two lines."""
    lines = documents.prose(text)
    joined = "\n".join(line for _, line in lines)
    for found in _INLINE.finditer(joined):
        if "\n\n" not in found[2]:
            yield lines[joined.count("\n", 0, found.start())][0], " ".join(found[2].split())


def command_lines(text: str) -> list[str]:
    """Returns the calls of dtrain in the shell code `text`, without their first word."""
    text = re.sub(r"\\\n\s*", " ", text)
    calls = []
    for line in text.splitlines():
        line = re.sub(r"(^|\s)#.*", "", line)
        for part in re.split(r"[|;&()`]", line):
            call = re.search(r"(?:^|[\s/\"])dtrain\"? +(.*)$", part)
            if call:
                calls.append(call[1])
    return calls


def wrong_in_call(call: str) -> str:
    """Returns an error if a call of dtrain names something that does not exist, else ""."""
    words = [it.strip("\"',:") for it in call.split()]
    while words and words[0].startswith("-"):  # options before the command
        takes_value = words[0] in ("--store", "--color")
        words = words[2 if takes_value else 1:]
    if not words or not re.fullmatch(r"[a-z][a-z-]*", words[0]):
        return ""
    given, words = words, in_own_words(words)
    if not words:
        return f"no command '{' '.join(given[:2])}'"
    if words == given[:1] != given:
        return ""  # the help of a group
    command = [words[0]]
    if words[0] not in commands():
        return f"no command '{words[0]}'"
    if subcommands(words[0]) and len(words) > 1 and re.fullmatch(r"[a-z]+", words[1]):
        if words[1] not in subcommands(words[0]):
            return f"no command '{words[0]} {words[1]}'"
        command.append(words[1])
    for option in sorted(options_in(" " + call)):
        if option not in options_of(*command) | determined_options():
            return f"'dtrain {' '.join(command)}' has no option '{option}'"
    for key in re.findall(r"--set ['\"]?([\w.]+)=", call):
        if wrong_key(key):
            return f"--set: {wrong_key(key)}"
    return ""


def wrong_key(key: str) -> str:
    """Returns "" if the YAML has `key`. Below hyperparameters, data and variables any key is valid."""
    path = key.split(".")
    free = ("hyperparameters", "data", "environment")
    known = yaml_keys()
    if path[0] in free or key in known:
        return ""
    length = path[-1] in ("batches", "epochs", "records") and ".".join(path[:-1]) in known
    return "" if length else f"no key '{key}'"


def wrong_path(text: str) -> str:
    """Returns "" if the path or pattern `text` exists in the repository."""
    text = text.rstrip("/").replace("NAME", "*")  # such as cli/NAME.cc
    if "{" in text:
        first, names, last = re.fullmatch(r"([^{]*)\{([^}]*)\}(.*)", text).groups()
        wrong = [wrong_path(first + name + last) for name in names.split(",")]
        return next((it for it in wrong if it), "")
    found = "…" in text or (any(REPOSITORY.glob(text)) if "*" in text
                            else (REPOSITORY / text).exists())
    return "" if found else f"no file '{text}'"


def wrong_link(document: str, target: str) -> str:
    if re.match(r"[a-z]+:", target):
        return ""
    path, _, anchor = target.partition("#")
    file = (REPOSITORY / document).parent / path if path else REPOSITORY / document
    if not file.exists():
        return f"no file '{target}'"
    if anchor and anchor not in documents.heading_anchors(file.read_text(encoding="utf-8")):
        return f"no heading '#{anchor}' in {file.name}"
    return ""


def wrong_inline(code: str) -> str:
    """Returns an error if inline code names something that does not exist, else ""."""
    if _PATH.match(code):
        return wrong_path(code)
    if code.startswith("dtrain "):
        calls = command_lines(code)
        return next((it for it in map(wrong_in_call, calls) if it), "")
    option = re.match(r"--[a-z][a-z-]*", code)
    if option and option[0] not in every_option():
        return f"no option '{option[0]}'"
    if _KEY.match(code) and code.split(".")[0] in {it.split(".")[0] for it in yaml_keys()}:
        return wrong_key(code)
    return ""


def wrong_yaml(text: str) -> str:
    """Returns the errors of a YAML block, except for missing required keys of a fragment."""
    top = set(re.findall(r"^([a-z_]+):", text, re.MULTILINE))
    if "entrypoint" not in top:
        text = "entrypoint: digits:LeNetTrial\n" + text
    if "searcher" not in top:
        text += "\nsearcher: {name: single, metric: a, max_length: 1}\n"
    done = subprocess.run([DTRAIN, "validate", "--keys", "--json", "-"], input=text, text=True,
                          capture_output=True, check=False)
    told = json.loads(done.stdout)
    errors = [f"{it['key']}: {it['message']}" for it in told["diagnostics"]
              if it["severity"] == "error" and "required but missing" not in it["message"]]
    if done.returncode not in (0, 2) or (not told["diagnostics"] and not told["valid"]):
        errors.append(str(told["error"]))
    return "; ".join(errors)


def wrong_tests(text: str) -> list[str]:
    """Returns errors for tests that `text` names and that do not exist."""
    wrong = []
    for fixture, name, more in _TEST.findall(text):
        start = rf"TEST(?:_[FP])?\(\s*{fixture},\s*{name}" if name else rf"\b{fixture}\b"
        if not re.search(start + ("" if more else r"\b"), test_sources()):
            wrong.append(f"no test '{fixture}{'.' + name if name else ''}'")
    return wrong


def wrong_in(document: str, text: str) -> list[str]:
    """Returns everything that a document names and that does not exist, with its line."""
    found = []
    for number, line in documents.prose(text):
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            found.append((number, wrong_link(document, target)))
        found += [(number, it) for it in wrong_tests(line)]
    found += [(number, wrong_inline(code)) for number, code in inline_code(text)]
    for block in documents.blocks(document, text):
        if block.language in ("sh", "console", ""):
            code = block.text
            if block.language == "console":
                code = "\n".join(it for it, _ in documents.console_commands(block))
            found += [(block.line, wrong_in_call(it)) for it in command_lines(code)]
        if block.language == "yaml":
            found.append((block.line, wrong_yaml(block.text)))
    return [f"{document}:{number}: {what}" for number, what in found if what]


class NamesTest(unittest.TestCase):
    def test_documents_name_what_there_is(self):
        wrong = []
        for document in documents.all_documents():
            wrong += wrong_in(document, documents.read(document))
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))

    def test_index_has_every_page(self):
        for document in documents.all_documents():
            page = document.removeprefix("docs/")
            index = "docs/cli.md" if page.startswith("cli/") else "docs/README.md"
            if document != "docs/README.md" and not page.startswith("decisions/"):
                page = page if document.startswith("docs/") else f"../{document}"
                self.assertIn(f"]({page})", documents.read(index),
                              f"{index} does not name {document}")

    def test_every_command_has_a_section(self):
        pages = [it for it in documents.all_documents() if it.startswith("docs/cli/")]
        headings = [re.findall(r"[a-z-]+", line) for page in pages
                    for _, line in documents.prose(documents.read(page)) if line.startswith("## ")]
        words = {word for heading in headings for word in heading}
        self.assertEqual(commands() - {"activate"} - words, set())
        for command in ("checkpoint", "data"):
            subs = {heading[1] for heading in headings if heading[0] == command}
            self.assertEqual(subs, subcommands(command))

    def test_decisions_are_numbered_without_a_gap(self):
        files = sorted(it.name for it in (REPOSITORY / "docs" / "decisions").glob("*.md"))
        self.assertEqual([it[:4] for it in files], [f"{i + 1:04}" for i in range(len(files))])


# Texts with a wrong name, and the error that must be found.
_WRONG = {
    "see [that](nowhere.md)": "no file 'nowhere.md'",
    "see [that](cli.md#nothing-of-this)": "no heading",
    "in `engine/store/nothing.cc`": "no file 'engine/store/nothing.cc'",
    "in `engine/store/{store,nothing}.h`": "no file 'engine/store/nothing.h'",
    "call `dtrain telescope 1`": "no command 'telescope'",
    "call `dtrain experiment burn`": "no command 'experiment burn'",
    "call `dtrain checkpoint burn`": "no command 'checkpoint burn'",
    "call `dtrain list --sideways`": "'dtrain list' has no option '--sideways'",
    "with\n`dtrain\nlist --sideways`": "'dtrain list' has no option '--sideways'",
    "give `--sideways`": "no option '--sideways'",
    "the key `searcher.max_lenght`": "no key 'searcher.max_lenght'",
    "tested by SidewaysTest": "no test 'SidewaysTest'",
    "tested by AshaTest.NoSuchBehaviour": "no test",
    "```sh\nx=$(dtrain trails 1)\n```": "no command 'trails'",
    "```sh\ndtrain create a.yaml \\\n  --sets a=1\n```": "has no option '--sets'",
    "```console\n$ dtrain create a.yaml --set searcher.nam=1\n```": "no key 'searcher.nam'",
    "```yaml\nsearcher: {max_lenght: 1}\n```": "unknown key",
    "```yaml\nresources: {slots_per_trial: 0.3}\n```": "resources.slots_per_trial",
}


class WrongNamesTest(unittest.TestCase):
    """Tests of the checks themselves."""

    def test_each_wrong_name_is_found(self):
        for text, expected in _WRONG.items():
            with self.subTest(text):
                self.assertIn(expected, "\n".join(wrong_in("docs/cli.md", text)))

    def test_good_names_are_good(self):
        text = ("[that](yaml.md#searcher), `engine/store/{store,layout}.h`, `--json`,\n"
                "`searcher.max_length.epochs`, `dtrain -q list | grep -c digits`\n"
                "```yaml\nsearcher: {max_length: {epochs: 1}}\n```\n")
        self.assertEqual(wrong_in("docs/cli.md", text), [])

    def test_marks_are_understood_or_refused(self):
        for text in ("<!-- run: never -->\n```sh\n```\n", "<!-- run: slow -->\ntext\n", "```sh\n"):
            with self.subTest(text), self.assertRaises(ValueError):
                documents.blocks("a.md", text)
        block = documents.blocks("a.md", "<!-- run: slow, exit 4 -->\n```sh\nx\n```\n")[0]
        self.assertEqual((block.slow, block.exit_code, block.line), (True, 4, 3))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    DTRAIN = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
