#!/usr/bin/env python3
"""Tests that the pictures of README.md are current, small, and that a change is noticed."""

import importlib.machinery
import importlib.util
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
loader = importlib.machinery.SourceFileLoader("pictures", str(ROOT / "scripts/pictures"))
pictures = importlib.util.module_from_spec(importlib.util.spec_from_loader("pictures", loader))
loader.exec_module(pictures)


class PicturesTest(unittest.TestCase):
    def test_are_drawn_from_the_present_sources(self):
        self.assertEqual(pictures.RECORD.read_text().strip(), pictures.digest(),
                         "the page, watch or scripts/pictures has changed; run scripts/pictures")

    def test_are_small_and_shown(self):
        files = [file for file in pictures.PICTURES.iterdir() if file.name != "sources"]
        self.assertLessEqual(sum(file.stat().st_size for file in files), 300_000)
        readme = (ROOT / "README.md").read_text()
        for file in files:
            self.assertIn(f"](docs/pictures/{file.name})", readme)

    def test_name_sources_that_exist(self):
        missing = [it for it in pictures.SOURCES if not list(pictures.ROOT.glob(it))]
        self.assertEqual(missing, [], "a source was renamed; name it in scripts/pictures")

    def test_a_change_of_a_source_is_noticed(self):
        with tempfile.TemporaryDirectory() as scratch:
            page = Path(scratch) / "engine/page/web/page.html"
            page.parent.mkdir(parents=True)
            page.write_text("one")
            root, pictures.ROOT = pictures.ROOT, Path(scratch)
            try:
                before = pictures.digest()
                page.write_text("two")
                self.assertNotEqual(pictures.digest(), before)
            finally:
                pictures.ROOT = root

    def test_colours_last_until_they_are_reset(self):
        texts = pictures.to_svg("\x1b[1;32mgood\nstill\x1b[0m <plain>\n")
        self.assertIn('<tspan fill="#98c379" font-weight="bold">still</tspan>', texts[1])
        self.assertIn("<tspan> &lt;plain&gt;</tspan>", texts[1])


if __name__ == "__main__":
    unittest.main()
