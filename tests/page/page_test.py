#!/usr/bin/python3
"""The page of `dtrain report` in a headless Chromium.

    page_test.py DTRAIN FILTER_CASES ANALYSIS_REFERENCE

Reads values from the page and compares them with --json, and uses it as a
reader does. Needs Debian's chromium, chromium-driver and python3-selenium,
which only Debian's own python3 sees; exits with 77 without them.
"""

import base64
import datetime
import gzip
import json
import math
import os
import pathlib
import random
import re
import shutil
import socket
import sqlite3
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from xml.etree import ElementTree

DRIVER = shutil.which("chromedriver")
try:
    from selenium import webdriver
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
except ImportError:
    DRIVER = None

DTRAIN = ""
CASES = ""
REFERENCE = ""
HOSTILE = "</script><img src=x onerror=document.title='hacked'>\u202egnp.exe"
NAME = HOSTILE + " in /srv/secret/name"
TRIALS = 30

CONFIG = {
    "name": NAME,
    "entrypoint": "./train.sh",
    "labels": ["<b>label</b>"],
    "hyperparameters": {
        "x": {"type": "double", "minval": 0, "maxval": 1},
        "rate": {"type": "log", "base": 10, "minval": -5, "maxval": -1},
        "constant": 7,
        "kind": {"type": "categorical", "vals": ["plain", HOSTILE, "/srv/secret/kind"]},
    },
    "searcher": {"name": "async_halving", "metric": "loss", "max_trials": TRIALS,
                 "max_length": {"batches": 40}, "num_rungs": 2,
                 "max_concurrent_trials": 2},
    "reproducibility": {"experiment_seed": 3},
    "profiling": {"enabled": True},
    "resources": {"slots": "cpu"},
}


# Reports training every 5 batches and validations every 10.
PROGRAM = """#!/bin/sh
set -eu
echo "$DTRAIN_UNTIL" > "$DTRAIN_DIRECTORY/state"
awk -v from="$DTRAIN_DONE" -v until="$DTRAIN_UNTIL" -v x="$DTRAIN_HPARAM_x" \\
  -v rate="$DTRAIN_HPARAM_rate" 'BEGIN {
    for (batch = from + 5; batch <= until; batch += 5) {
      loss = (x - 0.3) ^ 2 + rate + 1 / batch
      printf "{\\"type\\":\\"training\\",\\"batches\\":%d,\\"metrics\\":{\\"loss\\":%.17g}}\\n", batch, loss * 1.1
      if (batch % 10 == 0)
        printf "{\\"type\\":\\"validation\\",\\"batches\\":%d,\\"metrics\\":{\\"loss\\":%.17g,\\"speed\\":%.17g}}\\n", batch, loss, 1 - x
    }
  }' >&3
printf '{"type":"checkpoint","batches":%d,"path":"%s"}\\n' \\
  "$DTRAIN_UNTIL" "$DTRAIN_DIRECTORY/state" >&3
"""


def run(*arguments, code=0):
    done = subprocess.run([DTRAIN, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != code:
        raise AssertionError(f"dtrain {' '.join(arguments)}: {done.returncode}\n{done.stderr}")
    return done.stdout


def reference(requests):
    """Returns the results of engine/analysis for the requests."""
    done = subprocess.run([REFERENCE], input=json.dumps(requests), capture_output=True, text=True,
                          check=True)
    return json.loads(done.stdout)


def microseconds(text):
    """Returns the time of dtrain's JSON as microseconds since 1970."""
    parsed = datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ")
    return (parsed - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)


def browser_options():
    options = Options()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--window-size=1200,900", "--force-prefers-reduced-motion"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return options


def bundle_of(html):
    """Returns the document and the columns that the page embeds."""
    data = re.search(r'id="data">([^<]*)<', html).group(1)
    raw = gzip.decompress(base64.b64decode(data))
    length = struct.unpack("<I", raw[4:8])[0]
    return json.loads(raw[8:8 + length]), raw[8 + length:]


def write_program(name, text):
    program = pathlib.Path(name)
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)


class BrowserTest(unittest.TestCase):
    """Has a browser, and a store in a directory of its own, which is the current one."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="dtrain-page-")
        os.chdir(cls.directory.name)
        os.environ["DTRAIN_STORE"] = cls.directory.name + "/store"
        os.environ["DTRAIN_RUNTIME_DIR"] = cls.directory.name + "/slots"
        cls.browser = webdriver.Chrome(service=Service(DRIVER), options=browser_options())

    @classmethod
    def tearDownClass(cls):
        cls.browser.quit()
        cls.directory.cleanup()

    def open(self, fragment="", page=None):
        self.browser.get("about:blank")
        self.browser.get((page or self.page) + fragment)
        self.wait("window.dtrain && [...dtrain.charts, ...dtrain.slices].every((c) => c.drawn)")

    def wait(self, condition, seconds=300):
        end = time.monotonic() + seconds
        # Plots out of sight are drawn when they come into sight.
        draw = "window.dtrain?.drawAll?.(); "
        while not self.js(f"{draw} return Boolean({condition})"):
            self.assertLess(time.monotonic(), end, condition)
            time.sleep(0.02)

    def js(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def tearDown(self):
        errors = [line["message"] for line in self.browser.get_log("browser")
                  if line["level"] == "SEVERE"]
        self.assertEqual(errors, [])

class PageTest(BrowserTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        write_program("train.sh", PROGRAM)
        pathlib.Path("search.json").write_text(json.dumps(CONFIG), encoding="utf-8")
        run("create", "search.json")
        run("note", "1", "in /srv/secret/place")
        run("report", "1", "--html", "report.html")
        cls.page = pathlib.Path("report.html").resolve().as_uri()

    def trials(self):
        return json.loads(run("trials", "1", "--json"))["trials"]

    def test_shows_the_values_of_the_command_line(self):
        self.open()
        trials = self.trials()
        self.assertEqual(len(trials), TRIALS)
        shown = self.js("""
            const {data} = dtrain;
            return Array.from({length: data.trials.count}, (_, i) => [data.idOf(i),
              data.stateOf(i), data.trials.best[i], data.trials.batches[i],
              data.axes.map((axis) => data.axisText(axis, axis.values[i]))]);""")
        for trial, (name, state, best, batches, axes) in zip(trials, shown):
            self.assertEqual(name, trial["id"])
            self.assertEqual(state, trial["state"])
            self.assertEqual(best, trial["best"]["value"])
            self.assertEqual(batches, trial["batches"])
            self.assertEqual(axes[0], trial["hparams"]["kind"])
        best = json.loads(run("describe", "1", "--json"))["best"]
        self.assertIn(best["trial"], self.browser.find_element(By.ID, "summary").text)

    def test_has_every_metric_value(self):
        self.open()
        rows = json.loads(run("metrics", "1", "--json"))["metrics"]
        self.assertGreater(len(rows), 100)
        shown = self.js("""
            const {data} = dtrain;
            const rows = {};
            for (const one of data.metrics) {
              for (let i = 0; i < data.trials.count; ++i) {
                const series = data.series(i, one.key);
                if (!series) continue;
                series.batches.forEach((batches, n) => {
                  rows[[data.idOf(i), one.key, batches]] = series.value[n];
                });
              }
            }
            return rows;""")
        self.assertEqual(len(shown), len(rows))
        for row in rows:
            key = f"{row['trial']},{row['kind']}/{row['name']},{row['batches']}"
            single = struct.unpack("f", struct.pack("f", float(row["value"])))[0]
            self.assertEqual(shown[key], single, key)

    def test_makes_no_request_and_runs_no_foreign_script(self):
        self.open()
        self.assertEqual(self.js("return performance.getEntriesByType('resource').length"), 0)
        self.assertEqual(self.js("return document.images.length"), 0)
        self.assertIn("</script><img", self.browser.title)
        heading = self.browser.find_element(By.TAG_NAME, "h1").text
        self.assertIn("<img src=x onerror=", heading)

    def test_filters_as_the_command_line_does(self):
        self.open()
        field = self.browser.find_element(By.ID, "filter")
        field.send_keys("hp.x < 0.5 and state != ERROR")
        wanted = sum(t["hparams"]["x"] < 0.5 and t["state"] != "ERROR" for t in self.trials())
        self.assertGreater(wanted, 0)
        self.wait(f"document.getElementById('shown').textContent === '{wanted} of {TRIALS} trials'")
        field.send_keys(Keys.BACKSPACE * 40, "hp.xx < 1")
        self.wait("document.getElementById('filter-error').textContent.includes("
                  "\"did you mean 'hp.x'?\")")
        self.browser.find_element(By.ID, "clear").click()
        self.wait(f"dtrain.state.shown === {TRIALS} && !dtrain.state.error")

    def test_sorts_the_table_as_its_address_says(self):
        self.open()
        # The best first by default: the search is for the smallest loss.
        for fragment, sort in (("", "ascending"), ("#sort=best", "ascending"),
                               ("#sort=-best", "descending"), ("#log=y", "ascending")):
            self.js("location.hash = arguments[0]", fragment)  # in the open page, then from the start
            for _ in range(2):
                self.wait(f"document.querySelector('.head [title=best]').ariaSort === '{sort}'")
                self.js("dtrain.state.set({smooth: '0.5'})")
                self.open(self.js("return location.hash"))

    def test_sorts_the_table_by_a_heading(self):
        self.open()
        ids = lambda: self.js("return [...document.querySelectorAll('.rows .row')]"
                              ".slice(0, 5).map((row) => row.dataset.trial)")
        ordered = sorted(self.trials(), key=lambda t: t["hparams"]["x"])
        heading = self.browser.find_element(By.CSS_SELECTOR, '.head [title="hp.x"]')
        self.js("arguments[0].click()", heading)
        self.wait("dtrain.state.get('sort') === 'hp.x' && "
                  f"document.querySelector('.rows .row').dataset.trial === '{ordered[0]['id']}'")
        self.assertEqual(ids(), [t["id"] for t in ordered[:5]])
        self.js("document.querySelector('.head [title=\"hp.x\"]').click()")
        self.wait("document.querySelector('.rows .row').dataset.trial === "
                  f"'{ordered[-1]['id']}'")

    def test_trials_open_by_the_keyboard(self):
        self.open()
        best = self.js("return document.querySelector('.rows .row').dataset.trial")
        scroll = self.browser.find_element(By.CSS_SELECTOR, "#trials .scroll")
        scroll.send_keys(Keys.ARROW_DOWN, Keys.ENTER)
        self.wait("document.querySelector('dialog.trial').open")
        self.assertIn(f"Trial {best} ", self.browser.find_element(By.CSS_SELECTOR, "dialog").text)
        self.browser.switch_to.active_element.send_keys(Keys.ESCAPE)
        self.wait("!document.querySelector('dialog.trial').open")
        for chart in ("history", "parallel", "slice-x"):
            plot = self.browser.find_element(By.CSS_SELECTOR, f"#{chart} .plot")
            plot.send_keys(Keys.ARROW_RIGHT)
            tip = self.browser.find_element(By.CSS_SELECTOR, f"#{chart} .tip")
            self.wait(f"!document.querySelector('#{chart} .tip').hidden")
            name = tip.text.split(" ")[0]
            plot.send_keys(Keys.ENTER)
            self.wait("document.querySelector('dialog.trial').open")
            self.assertIn(f"trial={name}", self.browser.current_url)
            self.browser.switch_to.active_element.send_keys(Keys.ESCAPE)
            self.wait("!document.querySelector('dialog.trial').open")

    def test_scrolling_under_a_still_mouse_keeps_what_the_keyboard_shows(self):
        self.open()
        plot = self.browser.find_element(By.CSS_SELECTOR, "#history .plot")
        plot.send_keys(Keys.ARROW_RIGHT)
        hidden = self.js("""
            const [plot] = arguments;
            const tip = plot.querySelector('.tip');
            const hidden = [];
            for (const [type, movementX] of [['pointermove', 0], ['pointerleave', 0],
                                             ['pointermove', 9]]) {
              plot.dispatchEvent(new PointerEvent(type, {clientX: -99, clientY: -99, movementX}));
              hidden.push(tip.hidden);
            }
            return hidden;""", plot)
        self.assertEqual(hidden, [False, False, True])

    def test_what_scrolls_under_a_still_mouse_keeps_what_the_keyboard_chose(self):
        self.open()
        scroll = self.browser.find_element(By.CSS_SELECTOR, "#trials .scroll")
        scroll.send_keys(Keys.ARROW_DOWN)
        chosen = self.js("return dtrain.state.hovered")
        self.assertGreaterEqual(chosen, 0)
        after = self.js("""
            const chart = dtrain.charts.find((one) => one.card.id === 'history');
            const box = chart.plot.getBoundingClientRect();
            const [x, y] = chart.marks.find(([, , trial]) => trial !== dtrain.state.hovered);
            const key = document.querySelector('#curves .key');
            const after = [];
            for (const movementX of [0, 9]) {
              for (const [node, type] of [[chart.plot, 'pointermove'], [key, 'pointermove'],
                                          [key, 'pointerleave']]) {
                node.dispatchEvent(new PointerEvent(type,
                    {clientX: box.left + x, clientY: box.top + y, movementX}));
                after.push(dtrain.state.hovered);
              }
            }
            return after;""")
        self.assertEqual(after[:3], [chosen] * 3)
        self.assertNotEqual(after[3], chosen)
        self.assertEqual(after[5], -1)

    def test_a_trial_that_is_pointed_at_is_marked_in_the_plots_in_sight(self):
        self.open()
        marked = """[...document.querySelectorAll('.plot')].filter((plot) => {
            const canvas = plot.querySelectorAll('canvas')[1];
            return canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data
              .some((byte) => byte);
          }).map((plot) => plot.parentNode.id)"""
        for chart in ("history", "curves", "parallel", "contour", "pareto", "timeline", "slice-x"):
            self.js(f"document.getElementById('{chart}').scrollIntoView({{block: 'center'}})")
            self.wait(f"dtrain.{'slices' if 'slice' in chart else 'charts'}"
                      f".find((c) => c.card.id === '{chart}').inSight")
            self.js("dtrain.state.hover(dtrain.data.trialOf('1.1'))")
            self.wait(f"({marked}).includes('{chart}')")
            self.js("dtrain.state.hover(-1)")
            self.wait(f"!({marked}).includes('{chart}')")

    def saved(self, chart, kind):
        """Presses the button that saves a plot; returns the name of the file and its bytes."""
        self.js("URL.createObjectURL = (blob) => { window.blob = blob; return 'about:blank#'; };"
                "HTMLAnchorElement.prototype.click = function() { window.saved = this.download; };"
                "window.saved = ''; document.querySelector(`#${arguments[0]} .tool[title='save as "
                "${arguments[1].toUpperCase()}']`).click()", chart, kind)
        self.wait("window.saved")
        name, data = self.browser.execute_async_script(
            "const done = arguments[0]; const reader = new FileReader();"
            "reader.onload = () => done([saved, reader.result]); reader.readAsDataURL(blob)")
        return name, base64.b64decode(data.split(",")[1])

    def test_every_plot_is_saved_as_svg_and_png(self):
        self.open()
        marks = {"history": 30, "distribution": 1, "curves": 10, "parallel": 30, "importance": 2, "contour": 30,
                 "pareto": 30, "rungs": 3, "timeline": 2, "slice-x": 30}
        for chart, least in marks.items():
            name, data = self.saved(chart, "svg")
            # No system's special character, whatever the experiment is called.
            self.assertRegex(name, r"^1_[^/\\<>:|*\s\u202e]+_" + chart + r"\.svg$")
            svg = ElementTree.fromstring(data)
            space = "{http://www.w3.org/2000/svg}"
            self.assertGreaterEqual(len(svg.findall(space + "path")), least, chart)
            texts = [text.text for text in svg.findall(space + "text")]
            self.assertTrue(texts[0].endswith("1 " + NAME), texts[0])
            self.assertGreater(len(texts), 4, chart)
            self.assertEqual({element.tag for element in svg.iter()} - {
                space + tag for tag in ("svg", "defs", "clipPath", "path", "text")}, set())
        name, data = self.saved("history", "png")
        self.assertTrue(name.endswith("_history.png"))
        width, height = struct.unpack(">II", data[16:24])
        self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual(width, 2 * self.js("return dtrain.charts[0].width"))
        self.assertGreater(height, 600)

    def test_a_brush_selects_and_a_link_restores_it(self):
        self.open()
        overlay = self.browser.find_elements(By.CSS_SELECTOR, "#parallel .brush .overlay")[1]
        self.js("arguments[0].scrollIntoView({block: 'center'})", overlay)
        height = overlay.rect["height"]
        ActionChains(self.browser).move_to_element(overlay).click_and_hold() \
            .move_by_offset(0, int(height * 0.3)).release().perform()
        self.wait(f"dtrain.state.shown < {TRIALS}")
        [(name, (low, high))] = self.js("return Object.entries(dtrain.state.brushes())")
        shown = self.js("return dtrain.state.shown")
        inside = [t for t in self.trials() if low <= t["hparams"][name[3:]] <= high]
        self.assertEqual(shown, len(inside))
        link = self.browser.current_url
        self.assertIn("brush=", link)
        self.browser.get("about:blank")
        self.browser.get(link)
        self.wait(f"window.dtrain && dtrain.state.shown === {shown}")

    def test_a_box_zooms_every_plot_and_a_link_restores_it(self):
        self.open()
        chart = "[...dtrain.charts, ...dtrain.slices].find((one) => one.card.id === '%s')"
        for name in ("history", "distribution", "curves", "contour", "pareto", "timeline", "slice-x"):
            plot = self.browser.find_element(By.CSS_SELECTOR, f"#{name} .plot")
            self.js("arguments[0].scrollIntoView({block: 'center'})", plot)
            self.wait(f"{chart % name}.inSight && {chart % name}.drawn")
            box, x, y = self.js(f"const {{box, scales, width, height}} = {chart % name}; const {{x, y}} = scales;"
                                "const at = (scale, a, b) => scale && [a, b].map((end) => scale.invert(end) * "
                                "(scale === x ? scales.unit : 1)).sort((one, other) => one - other);"
                                "const ends = [box.left + 40, box.left + 120, box.top + 30, box.top + 90];"
                                "return [[...ends, width, height], at(x, ends[0], ends[1]), at(y, ends[2], ends[3])]")
            left, right, top, bottom, width, height = box
            ActionChains(self.browser).move_to_element_with_offset(
                plot, int(left - width / 2), int(top - height / 2)).click_and_hold() \
                .move_by_offset(int(right - left), int(bottom - top)).release().perform()
            self.wait(f"'{name}' in dtrain.state.zooms()")
            zoom = self.js("return dtrain.state.zooms()[arguments[0]]", name)
            self.assertAlmostEqual(zoom[0], x[0], delta=0.04 * (x[1] - x[0]), msg=name)
            self.assertAlmostEqual(zoom[1], x[1], delta=0.04 * (x[1] - x[0]), msg=name)
            if y:
                self.assertAlmostEqual(zoom[3], y[1], delta=0.04 * (y[1] - y[0]), msg=name)
            self.assertFalse(self.js("return Boolean(document.querySelector('dialog[open]'))"))
        self.open(self.js("return location.hash"))
        self.assertEqual(len(self.js("return Object.keys(dtrain.state.zooms())")), 7)
        outside = self.js("""return [...dtrain.charts, ...dtrain.slices].flatMap(({box, marks, zoom}) =>
            marks.filter(([x, y]) => zoom && (x < box.left || x > box.right || y < box.top || y > box.bottom)))""")
        self.assertEqual(outside, [])
        self.assertEqual(self.js(f"return {chart % 'history'}.scales.x.domain().map((end) => Number(end.toPrecision(6)))"),
                         self.js("return dtrain.state.zooms().history.slice(0, 2)"))
        reset = self.browser.find_element(By.CSS_SELECTOR, "#history .tools button")
        self.assertTrue(reset.is_displayed())
        reset.click()
        self.wait("!('history' in dtrain.state.zooms()) && document.querySelector('#history .tools button').hidden")
        plot = self.browser.find_element(By.CSS_SELECTOR, "#history .plot")
        plot.send_keys("+")
        self.wait("'history' in dtrain.state.zooms()")
        before = self.js("return dtrain.state.zooms().history")
        plot.send_keys(Keys.SHIFT + Keys.ARROW_RIGHT)
        self.wait(f"dtrain.state.zooms().history[0] > {before[0]}")
        plot.send_keys("0")
        self.wait("!('history' in dtrain.state.zooms())")
        # A box of one metric means nothing for another; a broken link shows everything.
        self.js("dtrain.state.set({metric: 'validation/speed'})")
        self.wait("Object.keys(dtrain.state.zooms()).length === 0")
        self.open("#zoom=" + '{"history":[1,"a",2],"curves":7}')
        self.assertEqual(self.js("return dtrain.state.zooms()"), {})

    def test_marks_have_a_contrast_of_three_in_both_themes(self):
        """WCAG 2.1, 1.4.11; faint ones, too, as long as there are at most 200."""
        def luminance(color):
            parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
            linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
            return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

        for theme in ("light", "dark"):
            self.open(f"#theme={theme}")
            colors, ranks, card = self.js("""
                const node = document.body.appendChild(document.createElement('i'));
                const color = (value) => { node.style.color = value; return getComputedStyle(node).color; };
                const names = ['one', 'ghost', 'bad', 'accent', 'text', 'quiet', ...[...Array(8).keys()].map((i) => 'c' + i)];
                return [names.map((name) => [name, color(`var(--${name})`)]),
                  [...Array(51).keys()].map((i) => ['rank ' + i, color(dtrain.rankColor(i / 50))]), color('var(--card)')];""")
            for name, color in [*colors, *ranks]:
                low, high = sorted((luminance(color), luminance(card)))
                self.assertGreaterEqual((high + 0.05) / (low + 0.05), 3, f"{theme} {name} {color}")
            # The better, the farther from the background, also without color.
            contrasts = [abs(luminance(color) - luminance(card)) for _, color in ranks]
            self.assertEqual(contrasts, sorted(contrasts, reverse=True))

    def test_every_plot_has_its_numbers_as_a_table(self):
        self.open()
        least = {"history": TRIALS, "distribution": 5, "curves": 2 * TRIALS, "parallel": TRIALS, "importance": 3,
                 "contour": TRIALS, "pareto": TRIALS, "rungs": 3, "timeline": TRIALS, "slice-x": TRIALS}
        for chart, rows in least.items():
            self.js("document.querySelector(`#${arguments[0]} > details.data:last-child > summary`).click()", chart)
            self.wait(f"document.querySelectorAll('#{chart} > details:last-child tbody tr').length >= {rows}")
        best = json.loads(run("best", "1", "-n", "1", "--json"))["best"][0]
        texts = self.js("return [...document.querySelectorAll('#history details tbody tr')].map((row) => "
                        "[...row.children].map((cell) => cell.textContent))")
        [row] = [one for one in texts if one[0] == best["trial"]]
        self.assertEqual(row[1], best["state"])
        self.assertAlmostEqual(float(row[2].split(" ")[0]), best["value"], 5)
        # It follows the filter.
        self.js("dtrain.state.set({filter: 'number < 4'})")
        self.wait("document.querySelectorAll('#history details tbody tr').length === 3")

    def test_a_screen_reader_hears_answers_and_no_updates(self):
        self.open()
        regions = self.js("return [...document.querySelectorAll('[role=status], [role=alert], [aria-live]')]"
                          ".map((one) => one.id || one.parentNode.parentNode.id)")
        self.assertEqual(sorted(regions), ["filter-error", "spoken", "trials"])
        spoken = lambda: self.js("return document.getElementById('spoken').textContent")
        self.js("dtrain.state.set({metric: 'validation/speed'})")
        self.wait("document.querySelector('#history svg').textContent.includes('speed')")
        self.assertEqual(spoken(), "")
        plot = self.browser.find_element(By.CSS_SELECTOR, "#history .plot")
        plot.send_keys(Keys.ARROW_RIGHT)
        self.assertEqual(spoken(), self.js("return document.querySelector('#history .tip').textContent"))
        self.browser.find_element(By.CSS_SELECTOR, "#trials .scroll").send_keys(Keys.ARROW_DOWN)
        self.assertRegex(spoken(), r"^id 1\.\d+, state [A-Z]+, best ")
        self.browser.find_element(By.ID, "filter").send_keys("number < 4")
        self.assertEqual(spoken(), f"3 of {TRIALS} trials")
        scroll = self.browser.find_element(By.CSS_SELECTOR, "#trials .scroll")
        self.wait("document.querySelector('#trials .scroll').ariaRowCount === '4'")
        self.assertEqual(self.js("return [...document.querySelectorAll('.rows .row')].map((row) => row.ariaRowIndex)"),
                         ["2", "3", "4"])
        self.assertEqual(scroll.aria_role, "table")
        self.assertEqual(self.js("return document.querySelector('a, button, input, select, [tabindex]').id"), "skip")
        self.browser.find_element(By.ID, "skip").send_keys(Keys.ENTER)
        self.wait("document.activeElement.tagName === 'MAIN'")

    def test_the_keyboard_brushes_and_orders_axes(self):
        self.open()
        self.js("document.querySelector('#parallel > details > summary').click()")
        self.wait("document.querySelectorAll('#parallel .slider').length === 4")
        slider = lambda label: self.browser.find_element(By.CSS_SELECTOR, f"#parallel input[aria-label='{label}']")
        field = slider("least x")
        field.send_keys(Keys.ARROW_RIGHT * 40)
        self.wait("(dtrain.state.brushes()['hp.x'] || [0])[0] > 0.35")
        self.assertTrue(self.js("return arguments[0] === document.activeElement", field))  # outlives the redraws
        [low, high] = self.js("return dtrain.state.brushes()['hp.x']")
        self.assertAlmostEqual(low, 0.4, delta=0.05)
        inside = sum(low <= trial["hparams"]["x"] <= high for trial in self.trials())
        self.wait(f"dtrain.state.shown === {inside}")
        self.assertEqual(self.js("return document.getElementById('spoken').textContent"), f"{inside} of {TRIALS} trials")
        slider("most kind").send_keys(Keys.HOME)
        self.wait("dtrain.state.brushes()['hp.kind']?.join() === '-0.25,0.25'")
        plain = sum(low <= one["hparams"]["x"] <= high and one["hparams"]["kind"] == "plain" for one in self.trials())
        self.wait(f"dtrain.state.shown === {plain}")
        slider("most kind").send_keys(Keys.END)
        self.wait("!dtrain.state.brushes()['hp.kind']")
        before = self.js("return dtrain.charts.find((one) => one.card.id === 'parallel').drawnAxes.map(({name}) => name)")
        self.js("document.querySelector('#parallel .slider [title=\"move right\"]').click()")
        self.wait("dtrain.charts.find((one) => one.card.id === 'parallel').drawnAxes[1].name === "
                  f"{json.dumps(before[0])}")

    def test_paper_has_the_whole_table(self):
        self.open()
        printed = self.js("""
            window.dispatchEvent(new Event('beforeprint'));
            const printed = [...document.querySelectorAll('.rows .row')].map((row) => row.dataset.trial);
            window.dispatchEvent(new Event('afterprint'));
            return printed;""")
        self.assertEqual(len(printed), TRIALS)
        self.assertEqual(printed, self.js("return dtrain.table.rows.map((trial) => dtrain.data.idOf(trial))"))
        self.assertLess(self.js("return document.querySelectorAll('.rows .row').length"), TRIALS)

    def test_the_front_of_two_metrics_is_that_of_best(self):
        self.open("#pareto=validation%2Floss%7Cvalidation%2Fspeed")
        chart = "dtrain.charts.find((c) => c.card.id === 'pareto')"
        # The better direction of a metric that no search is for must be chosen.
        self.wait(f"{chart}.note.textContent.includes('small or large speed is better')")
        self.assertEqual(self.js(f"return {chart}.front"), [])
        self.js("document.querySelector('#pareto select[aria-label=\"y: better is\"]').value = 'smaller'")
        self.js("document.querySelector('#pareto select[aria-label=\"y: better is\"]').onchange("
                "{target: {value: 'smaller'}})")
        self.wait(f"{chart}.front.length")
        front = self.js(f"return {chart}.front.map((i) => dtrain.data.idOf(i))")
        listed = json.loads(run("best", "1", "--pareto", "loss:min,speed:min", "--json"))
        self.assertEqual(sorted(front), sorted(t["trial"] for t in listed["pareto"]))

    def assert_near(self, found, wanted, note, tolerance=1e-9):
        """Compares nested lists of numbers; page and engine differ in the order of sums."""
        if isinstance(wanted, dict):
            self.assertEqual(sorted(found), sorted(wanted), note)
            for name in wanted:
                self.assert_near(found[name], wanted[name], note, tolerance)
        elif isinstance(wanted, list):
            self.assertEqual(len(found), len(wanted), note)
            for one, other in zip(found, wanted):
                self.assert_near(one, other, note, tolerance)
        elif isinstance(wanted, str):
            self.assertEqual(found, wanted, note)
        else:
            self.assertAlmostEqual(found, wanted, delta=tolerance * max(1, abs(wanted)), msg=note)

    def test_the_analysis_of_the_page_is_that_of_the_engine(self):
        self.open()
        drawn = random.Random(7)

        def number():
            # Few different values, so that there are ties.
            return drawn.choice([drawn.randrange(5), drawn.gauss(0, 1), "NaN", "Infinity", "-Infinity"])

        requests = []
        for case in range(60):
            count = drawn.choice([0, 1, 2, 3, 20, 200])
            values = [number() for _ in range(count)]
            finite = [value for value in values if not isinstance(value, str)]
            requests += [
                {"function": "ranks", "values": [v for v in values if v != "NaN"]},
                {"function": "distribution", "values": values},
                {"function": "smoothed", "values": values, "weight": drawn.choice([0, 0.6, 0.98])},
                {"function": "front", "points": [[v, drawn.randrange(4)] for v in finite]},
                {"function": "rungs", "trials": [[drawn.randrange(4), drawn.randrange(3)] for _ in values]},
                {"function": "limits", "lows": values, "highs": drawn.choice([values, [
                    v if isinstance(v, str) else v + abs(drawn.gauss(0, 30 ** drawn.randrange(6)))
                    for v in values]])},
                {"function": "field", "columns": drawn.choice([1, 3, 24]), "rows": 5,
                 "by_name_x": case % 2 == 0, "by_name_y": case % 3 == 0,
                 "samples": [[drawn.random(), drawn.random(), v] for v in finite]},
                {"function": "mean", "curves": [
                    [[x, v] for x, v in enumerate(values[start:], start) if x % every == 0]
                    for start, every in ((0, 1), (0, 3), (2, 1), (1, 2))]},
                {"function": "decimated", "columns": drawn.choice([1, 3, 10]),
                 "points": [[x, v] for x, v in enumerate(values)]},
                {"function": "history", "smaller": case % 2 == 0, "start": 1_000_000,
                 "effort": drawn.choice(["trials", "batches", "epochs", "seconds"]),
                 "observations": [{"microseconds": 1_000_000 + n * 5000, "trial": drawn.randrange(6),
                                   "batches": drawn.randrange(9), "epochs": drawn.randrange(9) / 4,
                                   "value": v} for n, v in enumerate(values)]}]
        found = self.js("""
            const {dtrain} = window;
            const names = {NaN, Infinity, '-Infinity': -Infinity};
            const read = (value) => (typeof value === 'string' ? names[value] : value);
            const write = (value) => (typeof value !== 'number' || Number.isFinite(value) ? value :
              String(value));
            const list = (values) => Array.from(values, write);
            const points = (all) => all.map((point) => point.map(write));
            const functions = {
              ranks: (one) => list(dtrain.ranksOf(one.values.map(read))),
              distribution: (one) => points(dtrain.distributionOf(one.values.map(read))),
              smoothed: (one) => list(dtrain.smoothed(one.values.map(read), one.weight)),
              front: (one) => dtrain.paretoFront(one.points).sort((a, b) => a - b),
              rungs: (one) => dtrain.countRungs(one.trials.map(([rungs]) => rungs),
                one.trials.map(([, end]) => ['open', 'ended', 'completed'][end])),
              limits: (one) => dtrain.robustRange(one.lows.map(read), one.highs.map(read)) || [],
              field: (one) => list(dtrain.estimateField(one.samples, one.columns, one.rows,
                one.by_name_x, one.by_name_y)),
              mean: (one) => dtrain.meanBand(one.curves.map((curve) => (
                {x: (i) => curve[i][0], values: curve.map(([, y]) => read(y))}))),
              decimated: (one) => dtrain.decimatedPoints((i) => one.points[i][0],
                one.points.map(([, y]) => read(y)), one.columns),
              history: (one) => {
                const column = (of) => Float64Array.from(one.observations, of);
                const efforts = dtrain.effortsOf({trials: column((seen) => seen.trial),
                  batches: column((seen) => seen.batches), epochs: column((seen) => seen.epochs),
                  seconds: column((seen) => (seen.microseconds - one.start) / 1e6)}, one.effort);
                return {efforts: list(efforts), best: points(dtrain.bestSoFar(efforts,
                  column((seen) => read(seen.value)), one.smaller))};
              },
            };
            return arguments[0].map((one) => functions[one.function](one));""", requests)
        for request, page, engine in zip(requests, found, reference(requests)):
            self.assert_near(page, engine, str(request)[:300])

    def test_history_distribution_and_rungs_are_those_of_the_engine(self):
        trials = self.trials()
        values = [t["best"]["value"] if t["best"] else "NaN" for t in trials]
        record = json.loads(run("describe", "1", "--json"))
        created, started = (microseconds(record[name]) for name in ("created", "started"))

        def since(time):  # whole milliseconds, as in the page
            return (microseconds(time) - created) // 1000 * 1000

        seen = sorted((one for one in json.loads(run("metrics", "1", "--json"))["metrics"]
                       if one["kind"] == "validation" and one["name"] == "loss"),
                      key=lambda one: since(one["time"]))
        observations = [{"microseconds": since(one["time"]), "batches": one["batches"],
                         "trial": int(one["trial"].split(".")[1]), "value": one["value"]}
                        for one in seen]
        efforts = ["batches", "trials", "seconds"]
        wanted = reference([
            {"function": "distribution", "values": values},
            {"function": "rungs", "trials": [[t["rung"], 2 if t["state"] == "COMPLETED" else 1]
                                             for t in trials]},
            *({"function": "history", "observations": observations, "effort": effort,
               "start": (started // 1000 - created // 1000) * 1000, "smaller": True} for effort in efforts)])
        self.open()
        chart = "dtrain.charts.find((c) => c.card.id === '%s')"
        self.assert_near(self.js(f"return {chart % 'distribution'}.curves[0].points"), wanted[0], "EDF")
        shown = self.js(f"return {chart % 'rungs'}.rows")
        for row, engine in zip(shown, wanted[1]):
            self.assertEqual({name: row[name] for name in engine}, engine)
        self.assertEqual(len(shown), len(wanted[1]))
        for effort, engine in zip(efforts, wanted[2:]):
            line = self.js(f"""return {chart % 'history'}.historyOf(dtrain.data.experiments[0],
                'validation/loss', arguments[0]).line""", effort)
            self.assert_near(line, engine["best"], effort, 1e-6)  # single precision

    def test_the_timeline_has_a_row_for_each_slot(self):
        self.open()
        runs = self.js("const {trial, from, to, lane} = dtrain.data.experiments[0].runs;"
                       "return [trial, from, to, lane].map((one) => [...one])")
        runs = list(zip(*runs))
        self.assertLessEqual({lane for *_, lane in runs}, {0, 1})  # max_concurrent_trials: 2
        for trial in self.trials():
            own = [run for run in runs if f"1.{run[0]}" == trial["id"]]
            self.assertGreaterEqual(len(own), 1)
            self.assertLessEqual(len(own), trial["runs"])
        for number, begin, end, lane in runs:
            self.assertLessEqual(begin, end)
            self.assertEqual([other for other in runs if other[3] == lane and
                              other[1] < begin < other[2] and other[0] != number], [])

    def test_ranks_best_trial_and_importance_are_those_of_the_command_line(self):
        self.open()
        best = [t["trial"] for t in json.loads(run("best", "1", "-n", "5", "--json"))["best"]]
        rows = self.js("return [...document.querySelectorAll('.rows .row')].slice(0, 5)"
                       ".map((row) => row.dataset.trial)")
        self.assertEqual(rows, best)
        legend = self.js("return [...document.querySelectorAll('#curves .key')]"
                         ".map((key) => key.textContent)")
        self.assertEqual(legend[:5], best)
        self.assertIn(best[0], self.browser.find_element(By.ID, "summary").text)
        listed = json.loads(run("importance", "1", "--json"))
        shown = self.js("return dtrain.data.experiments[0].importance")
        self.assertEqual([one["name"] for one in shown["items"]],
                         [one["hparam"] for one in listed["importance"]])
        self.assert_near([one["share"] for one in shown["items"]],
                         [one["importance"] for one in listed["importance"]], "importance", 1e-12)
        self.assertEqual(shown["best"], listed["best_trials"])

    def test_a_trial_opens_with_its_records(self):
        self.open("#trial=1.3")
        dialog = self.browser.find_element(By.CSS_SELECTOR, "dialog.trial")
        self.assertIn("Trial 1.3", dialog.text)
        [trial] = [one for one in self.trials() if one["id"] == "1.3"]
        self.assertIn(trial["hparams"]["kind"], dialog.text)
        self.assertIn("constant 7 (not searched)", dialog.text)
        self.assertIn("loss (validation)", dialog.text)
        self.assertIn(trial["checkpoint"], dialog.text)
        self.browser.find_element(By.CSS_SELECTOR, "dialog .close").click()
        self.wait("!location.hash.includes('trial=')")

    def test_pinned_trials_stand_side_by_side_and_in_the_address(self):
        self.open()
        self.assertFalse(self.browser.find_element(By.ID, "pinned").is_displayed())
        ids = self.js("return [...document.querySelectorAll('.rows .row')].map((row) => row.dataset.trial)")
        self.js("document.querySelector('.rows .pin input').click()")
        scroll = self.browser.find_element(By.CSS_SELECTOR, "#trials .scroll")
        scroll.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.SPACE)
        self.wait("dtrain.state.pinned().length === 2")
        self.js("dtrain.state.set({trial: arguments[0]})", ids[20])
        self.wait("document.querySelector('dialog .pin-trial')")
        self.browser.find_element(By.CSS_SELECTOR, "dialog .pin-trial").click()
        self.js("dtrain.state.set({trial: ''})")
        pins = [ids[0], ids[1], ids[20]]
        self.wait("document.querySelectorAll('#pinned thead th').length === 3")
        self.open(self.js("return location.hash"))  # a link shows the same
        rows = self.js("return [...document.querySelectorAll('#pinned tbody tr')].map((row) => "
                       "[row.className, ...[...row.children].map((cell) => cell.textContent)])")
        shown = {row[1].lstrip("≠").strip(): (row[0], row[2:]) for row in rows if len(row) > 2}
        trials = {trial["id"]: trial for trial in self.trials()}
        self.assertEqual(shown["state"][1], [trials[one]["state"] for one in pins])
        self.assertEqual(shown["constant"], ("", ["7"] * 3))
        self.assertEqual(shown["kind"][1], [trials[one]["hparams"]["kind"] for one in pins])
        self.assertEqual(shown["x"][0], "differs")
        self.assertIn(" (best)", shown["loss"][1][0])
        self.assertEqual(shown["length"][1], [f"{trials[one]['batches']} batches" for one in pins])
        legend = self.js("return [...document.querySelectorAll('#curves .key')].map((key) => key.textContent)")
        self.assertEqual(legend[10:], [ids[20]])
        self.js("document.querySelector('#pinned .controls input').click()")
        self.wait("![...document.querySelectorAll('#pinned tbody tr')].some((row) => row.textContent.includes('constant'))")
        self.assertIn("differing=1", self.browser.current_url)
        self.js("document.querySelector('#pinned .controls button').click()")
        self.wait("dtrain.state.shown === 3")
        self.js("document.querySelector('#pinned [aria-label^=unpin]').click()")
        self.wait("document.querySelectorAll('#pinned thead th').length === 2")

    def test_the_mean_of_a_group_and_its_spread_are_those_of_its_trials(self):
        self.open("#group=hp.kind&kinds=validation")
        curves = "dtrain.charts.find((one) => one.card.id === 'curves')"
        groups = {}
        trials = {trial["id"]: trial["hparams"]["kind"] for trial in self.trials()}
        for row in json.loads(run("metrics", "1", "--json"))["metrics"]:
            if (row["kind"], row["name"]) == ("validation", "loss"):
                groups.setdefault(trials[row["trial"]], {}).setdefault(row["batches"], []).append(row["value"])
        names = self.js(f"return {curves}.groups.names")
        self.assertEqual(sorted(names), sorted(groups))
        for band in self.js(f"return {curves}.bands"):
            values = groups[names[band["group"]]]
            wanted = [[place, statistics.mean(ones), statistics.stdev(ones), len(ones)]
                      for place, ones in sorted(values.items()) if len(ones) > 1]
            self.assert_near(band["points"], wanted, names[band["group"]], 1e-6)  # single precision
        legend = self.js("return [...document.querySelectorAll('#curves .key')].map((key) => key.textContent)")
        self.assertEqual(len(legend), len(groups))
        tip = self.js(f"const chart = {curves}; return chart.describe(chart.scales.x(20), chart.box.top + 9)")
        self.assertRegex(tip.split("\n")[0], r" validation: [\d.]+ ± [\d.]+ \(\d+\) at 20$")
        # A number with many values has four groups of as many trials.
        self.js("dtrain.state.set({group: 'hp.x'})")
        self.wait(f"{curves}.groups.names.length === 4")
        sizes = self.js(f"return [0, 1, 2, 3].map((n) => [...{curves}.groups.places.values()]"
                        ".filter((one) => one === n).length)")
        self.assertEqual(sum(sizes), TRIALS)
        self.assertLessEqual(max(sizes) - min(sizes), 2)

    def test_a_hyperparameter_colors_the_trials_of_all_plots(self):
        self.open("#color=hp.kind")
        trials = self.trials()
        colors = self.js("const [chart] = dtrain.charts; return [...Array(dtrain.data.trials.count).keys()]"
                         ".map((i) => chart.colorOf(i, ''))")
        by_kind = {}
        for trial, color in zip(trials, colors):
            by_kind.setdefault(trial["hparams"]["kind"], set()).add(color)
        self.assertEqual(len(by_kind), 3)
        self.assertEqual({len(ones) for ones in by_kind.values()}, {1})
        self.assertEqual(len(set.union(*by_kind.values())), 3)
        for card in ("history", "curves", "metrics", "parallel", "slices", "pareto"):
            texts = self.js("return [...document.querySelectorAll(`#${arguments[0]} > .legend`)]"
                            ".map((legend) => legend.textContent).join(' ')", card)
            self.assertIn("kind:", texts, card)
            self.assertIn("/srv/secret/kind", texts, card)
        self.js("dtrain.state.set({color: 'hp.rate'})")  # a logarithm
        self.wait("document.querySelector('#history .legend .gradient')")
        places = sorted(trials, key=lambda trial: trial["hparams"]["rate"])
        colors = self.js("return arguments[0].map((id) => dtrain.charts[0].colorOf(dtrain.data.trialOf(id), ''))",
                         [trial["id"] for trial in places])
        self.assertGreater(len(set(colors)), TRIALS * 0.9)

    def test_smoothing_keeps_the_values_behind(self):
        self.open("#smooth=0.9")
        curves = self.js("return dtrain.charts.find((one) => one.card.id === 'curves').curves"
                         ".map(({raw, values}) => [[...raw], [...values], [...dtrain.smoothed(raw, 0.9)]])")
        self.assertGreater(len(curves), 10)
        for raw, values, wanted in curves:
            self.assertEqual(values, wanted)
        self.assertTrue(any(raw != values for raw, values, _ in curves))

    def test_a_grid_has_all_metrics(self):
        self.open()
        names = lambda: self.js("return [...document.querySelectorAll('#metrics .slices h2')]"
                                ".map((one) => one.textContent)")
        self.assertEqual(names(), ["loss", "speed"])
        field = self.browser.find_element(By.CSS_SELECTOR, "#metrics input")
        field.send_keys("SPE")
        self.wait("document.querySelectorAll('#metrics .slices h2').length === 1")
        self.assertIn("find=SPE", self.browser.current_url)
        self.wait("dtrain.grid.drawn.every((one) => one.drawn)")
        self.assertEqual(self.js("const [chart] = dtrain.grid.drawn; return [...new Set(chart.curves.map("
                                 "(one) => one.kind))]"), ["validation"])
        self.js("document.querySelector('#metrics .tools [title^=\"show this metric\"]').click()")
        self.wait("dtrain.state.metric() === 'validation/speed'")

    def test_a_profiled_trial_shows_where_its_time_went(self):
        with sqlite3.connect(os.environ["DTRAIN_STORE"] + "/dtrain.db") as store:
            [[trial]] = store.execute("SELECT id FROM trials WHERE number = 2")
            store.execute(
                "INSERT INTO profiles (trial, batches, trained, samples, data, forward, backward, "
                "exchange, optimizer, report, validation, checkpoint, other, minor_faults, "
                "peak_bytes, time) VALUES (?, 10, 10, 640, 1, 2, 3, 0, 1, 0, 1, 0, 0, 0, "
                "2000000, 0)", (trial,))
        run("report", "1", "--html", "profiled.html")
        self.open("#trial=1.2", pathlib.Path("profiled.html").resolve().as_uri())
        profile = json.loads(run("describe", "1.2", "--json"))["profile"]
        text = self.browser.find_element(By.CSS_SELECTOR, "dialog.trial").text
        for name, phase in profile["phases"].items():
            self.assertIn(f"{name} {phase['milliseconds_per_batch']:.3f} {phase['share'] * 100:.1f} %",
                          text)
        self.assertIn("all 800.000 100.0 % 8 s", text)
        self.assertIn("peak memory 2 MB", text)

    def test_the_commands_of_a_trial_work(self):
        self.open("#trial=1.3")
        commands = self.browser.find_element(By.CSS_SELECTOR, "dialog .commands").text.split("\n")
        self.assertIn("dtrain reproduce 1.3", commands)
        self.assertIn("dtrain continue 1.3 --best", commands)
        for command in commands:
            run(*command.split()[1:])

    def test_the_parser_passes_the_cases_of_the_command_line(self):
        self.open()
        cases = json.loads(pathlib.Path(CASES).read_text(encoding="utf-8"))
        failed = self.js("""
            const cases = arguments[0];
            const now = Date.parse(cases.now);
            const kindOf = (name) => cases.kinds[name] ?? cases.functions[name];
            const resolve = (name) => {
              if (!kindOf(name)) throw new dtrain.FilterError(`unknown name '${name}'`);
              return {kind: kindOf(name), words: cases.words[name]};
            };
            const valueOf = (row, name) => {
              const value = row[name];
              if (value === undefined) return null;
              if (kindOf(name) === 'time') return {time: Date.parse(value)};
              return kindOf(name) === 'number' ? Number(value) : value;
            };
            const failed = [];
            for (const one of cases.cases) {
              const filter = one.repeat ? one.repeat.repeat(one.times) : one.filter;
              let result;
              try {
                const tree = dtrain.parseFilter(filter, {resolve, now});
                result = cases.rows.filter((row) => dtrain.matches(tree, (name) =>
                  valueOf(row, name))).map((row) => row.id);
              } catch (error) {
                if (!(error instanceof dtrain.FilterError)) throw error;
                result = error.message;
              }
              // Engines of regular expressions have messages of their own.
              const good = one.error === undefined ?
                JSON.stringify(result) === JSON.stringify(one.matches) :
                typeof result === 'string' &&
                  (result.includes(one.error) || result.includes('regular expression'));
              if (!good) failed.push([filter.slice(0, 80), result]);
            }
            return failed;""", cases)
        self.assertEqual(failed, [])

    def test_fits_a_narrow_screen_and_has_two_themes(self):
        self.browser.set_window_size(500, 800)  # Chromium's least
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": True})
        try:
            self.open()
            self.assertLessEqual(self.js("return document.documentElement.scrollWidth"), 360)
            back = "return getComputedStyle(document.body).backgroundColor"
            light = self.js(back)
            self.js("document.getElementById('theme').click()")
            self.assertNotEqual(self.js(back), light)
        finally:
            self.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
            self.browser.set_window_size(1200, 900)

    def test_can_be_printed(self):
        self.open("#theme=dark")
        self.js("""
            window.printed = [];
            addEventListener('beforeprint', () => printed.push(
              document.querySelector('#curves canvas').clientWidth,
              getComputedStyle(document.documentElement).getPropertyValue('--card').trim()));
            addEventListener('afterprint', () => printed.push(
              getComputedStyle(document.documentElement).getPropertyValue('--card').trim()))""")
        pdf = self.browser.execute_cdp_cmd("Page.printToPDF", {})["data"]
        self.assertGreater(len(base64.b64decode(pdf)), 20_000)
        width, paper, after = self.js("return printed")
        self.assertLessEqual(width, 700)
        self.assertEqual((paper, after), ("#fff", "#1c2026"))

    def test_says_that_damaged_data_cannot_be_read(self):
        html = pathlib.Path("report.html").read_text(encoding="utf-8")
        at = html.index('id="data">') + len('id="data">')
        pathlib.Path("damaged.html").write_text(html[:at] + html[at + 400:], encoding="utf-8")
        self.browser.get(pathlib.Path("damaged.html").resolve().as_uri())
        self.wait("document.getElementById('message').textContent.includes('cannot be read')")
        self.browser.get_log("browser")  # the error is in the console, too

    def test_reduced_report_has_no_host_user_or_path(self):
        run("report", "1", "--html", "public.html", "--redact")
        html = pathlib.Path("public.html").read_text(encoding="utf-8")
        document, _ = bundle_of(html)
        text = json.dumps(document) + html
        self.assertNotIn(self.directory.name, text)
        self.assertNotIn("/srv/secret", text)
        if len(socket.gethostname()) > 3:
            self.assertNotIn(socket.gethostname(), text)
        self.assertEqual(document["experiments"][0]["note"], "in [removed]")
        self.assertNotIn("/srv/secret", run("report", "1", "--md", "--redact"))
        self.open(page=pathlib.Path("public.html").resolve().as_uri())
        self.assertIn("[removed]", self.browser.title)
        self.assertNotIn("/srv", self.browser.title)
        self.assertEqual(self.browser.find_element(By.TAG_NAME, "h1").text, self.browser.title)

    def test_a_report_of_some_trials_has_no_others(self):
        run("report", "1", "--html", "some.html", "--filter", "number > 20")
        wanted = [t for t in self.trials() if int(t["id"].split(".")[1]) > 20]
        ids = [t["id"] for t in wanted]
        html = pathlib.Path("some.html").read_text(encoding="utf-8")
        record = bundle_of(html)[0]["experiments"][0]
        rows = json.loads(run("metrics", "1", "--json", "--filter",
                              "number > 20"))["metrics"]
        self.assertEqual(record["metrics"]["rows"], len(rows))
        self.open(page=pathlib.Path("some.html").resolve().as_uri())
        self.assertEqual(self.js("""
            const {data} = dtrain;
            return Array.from({length: data.trials.count}, (_, i) => data.idOf(i));"""), ids)
        summary = self.browser.find_element(By.ID, "summary").text
        self.assertIn(f"{len(ids)} of {TRIALS} trials match number > 20", summary)
        best = min(wanted, key=lambda t: t["best"]["value"])
        self.assertIn(f"in trial {best['id']} ", summary)

    def test_a_reduced_report_has_no_path_of_its_filter(self):
        run("report", "1", "--html", "few.html", "--redact", "--filter",
            "hp.kind != '/srv/secret/kind'")
        html = pathlib.Path("few.html").read_text(encoding="utf-8")
        self.assertNotIn("/srv/secret", json.dumps(bundle_of(html)[0]) + html)

    def test_readers_without_javascript_see_the_best_trials_and_two_plots(self):
        html = pathlib.Path("report.html").read_text(encoding="utf-8")
        noscript = html[html.index("<noscript>"):html.index("</noscript>")]
        best = min(self.trials(), key=lambda t: t["best"]["value"] if t["best"] else math.inf)
        self.assertIn(f"<td>{best['id']}</td>", noscript)
        self.assertIn("20 of 30 trials.", noscript)
        options = browser_options()
        options.add_experimental_option(
            "prefs", {"profile.managed_default_content_settings.javascript": 2})
        with webdriver.Chrome(service=Service(DRIVER), options=options) as browser:
            browser.get(self.page)
            plots = browser.find_elements(By.CSS_SELECTOR, "noscript > svg")
            titles = [svg.text.split("\n")[0] for svg in plots]
            self.assertEqual(len(titles), 2)
            self.assertIn("best loss so far", titles[0])
            self.assertIn("best 10 of 30 trials", titles[1])
            self.assertNotIn("Reading the data", browser.find_element(By.TAG_NAME, "body").text)
            self.assertEqual([line for line in browser.get_log("browser")], [])


# Reports 500 metrics beside the loss, under hostile and very long names, and
# numbers that are not finite.
WIDE_PROGRAM = """#!/bin/sh
set -eu
awk -v from="$DTRAIN_DONE" -v until="$DTRAIN_UNTIL" -v x="$DTRAIN_HPARAM_x000" 'BEGIN {
    for (batch = from + 1; batch <= until; ++batch) {
      printf "{\\"type\\":\\"validation\\",\\"batches\\":%d,\\"metrics\\":{\\"loss\\":%.17g", batch, x + 1 / batch
      for (i = 0; i < 500; ++i) printf ",\\"metric%d\\":%d", i, i + batch
      printf ",\\"LONG\\":1,\\"</script><img src=x onerror=alert(1)>\\":2,\\"a\\\\u202eb\\":3"
      printf ",\\"nul\\\\u0000nul\\":4,\\"nan\\":NaN,\\"inf\\":Infinity,\\"minus\\":-Infinity}}\\n"
    }
  }' >&3
""".replace("LONG", "m" * 1000)

# Reports its hyperparameters, or NaN.
HOPELESS_PROGRAM = """#!/bin/sh
set -eu
printf '{"type":"validation","batches":%d,"metrics":{"loss":%s,"other":%s}}\\n' "$DTRAIN_UNTIL" \\
  "${DTRAIN_HPARAM_loss:-NaN}" "${DTRAIN_HPARAM_other:-NaN}" >&3
"""


def search(name, program, hyperparameters, trials):
    return {"name": name, "entrypoint": "./" + program, "hyperparameters": hyperparameters,
            "searcher": {"name": "random", "metric": "loss", "max_trials": trials,
                         "max_length": {"batches": 3}},
            "resources": {"slots": "cpu"}, "reproducibility": {"experiment_seed": 1}}


class BadInputTest(BrowserTest):
    WIDE, HOPELESS, SINGLE, EMPTY, INFINITE, LARGE = range(1, 7)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        write_program("wide.sh", WIDE_PROGRAM)
        write_program("hopeless.sh", HOPELESS_PROGRAM)
        unit = {"type": "double", "minval": 0, "maxval": 1}
        wide = {f"x{i:03}": unit for i in range(199)}
        single = search("constants only", "hopeless.sh", {"loss": 0.5, "name": "a"}, 1)
        single["searcher"] = {"name": "single", "metric": "loss", "max_length": {"batches": 3}}
        for config in (search("n" * 1000, "wide.sh", {**wide, "h" * 1000: unit}, 12),
                       search("hopeless", "hopeless.sh", {"x": unit}, 3), single, single,
                       search("infinite", "hopeless.sh", {"loss": 1, "other": {
                           "type": "categorical", "vals": ["Infinity", "-Infinity", "0"]}}, 12),
                       search("large", "hopeless.sh", {"loss": 0.99999951, "big": {
                           "type": "categorical", "vals": [2**53, 2**53 + 1]}}, 8)):
            pathlib.Path("bad.json").write_text(json.dumps(config), encoding="utf-8")
            run("create", "bad.json", code=1 if config["name"] == "hopeless" else 0)
        with sqlite3.connect(os.environ["DTRAIN_STORE"] + "/dtrain.db") as store:
            trial = f"(SELECT id FROM trials WHERE experiment = {cls.EMPTY})"
            for table in ("metrics", "validations", "checkpoints"):
                store.execute(f"DELETE FROM {table} WHERE trial IN {trial}")
            store.execute(f"UPDATE experiments SET best_trial_id = NULL, best_trial = NULL, "
                          f"best_value = NULL, best_batches = NULL WHERE id = {cls.EMPTY}")
            store.execute(f"DELETE FROM trials WHERE experiment = {cls.EMPTY}")

    def open_report(self, *experiments, fragment=""):
        name = "bad" + "-".join(map(str, experiments)) + ".html"
        run("report", *map(str, experiments), "--html", name, "--force")
        self.open(fragment, pathlib.Path(name).resolve().as_uri())

    def notes(self):
        return self.js("return Object.fromEntries([...dtrain.charts, ...dtrain.slices].map((c) => "
                       "[c.card.id, c.note.textContent]))")

    def test_many_and_hostile_names_stay_in_their_places(self):
        self.open_report(self.WIDE)
        self.assertEqual(self.js("return document.documentElement.scrollWidth"),
                         self.js("return document.documentElement.clientWidth"))
        self.assertEqual(self.js("return dtrain.data.metrics.length"), 508)
        self.assertEqual(self.js("return document.images.length"), 0)
        header = self.browser.find_element(By.TAG_NAME, "header").size["height"]
        self.assertLess(header, 160)
        grid = "document.querySelectorAll('#metrics .slices > .card').length"
        self.assertEqual(self.js(f"return {grid}"), 12)
        self.js("document.querySelector('#metrics > button').click()")
        self.wait(f"{grid} === 24")
        self.js("dtrain.state.set({find: 'img'})")
        self.wait(f"{grid} === 1 && dtrain.grid.drawn[0].drawn")
        notes = self.notes()
        self.assertRegex(notes["parallel"], r"The \d+ most important hyperparameters of 200")
        # The axis of the metric is there nevertheless.
        axes = self.js("return dtrain.charts.find((c) => c.card.id === 'parallel').axisList()"
                       ".map((axis) => axis.name)")
        self.assertEqual(axes[-1], "validation/loss")
        self.assertIn("20 of 200 shown", notes["importance"])
        slices = self.browser.find_element(By.CSS_SELECTOR, "#slices .about").text
        self.assertIn("The 60 most important of 200 are shown.", slices)
        most = self.js("return dtrain.data.experiments[0].importance.items[0].name")
        self.assertEqual(self.js("return dtrain.slices[0].card.id"), "slice-" + most)

    def test_every_metric_that_is_not_finite_says_so(self):
        self.open_report(self.WIDE)
        for name in ("nan", "inf", "minus"):
            self.js("dtrain.state.set({metric: arguments[0]})", "validation/" + name)
            self.wait("dtrain.charts[0].note.textContent.startsWith('Nothing finite')")
            self.assertIn("Nothing finite", self.notes()["curves"])
        self.js("dtrain.state.set({metric: arguments[0]})", "validation/nul\0nul")
        self.wait("!dtrain.charts[0].note.textContent.includes('Nothing finite')")

    def test_a_search_without_a_finite_value_says_so(self):
        self.open_report(self.HOPELESS)
        notes = self.notes()
        for chart in ("history", "curves", "distribution"):
            self.assertIn("Nothing finite", notes[chart], chart)
        self.assertIn("0 trials have a finite value", notes["importance"])
        self.assertIn("none", self.browser.find_element(By.ID, "summary").text)
        noscript = pathlib.Path(f"bad{self.HOPELESS}.html").read_text(encoding="utf-8")
        self.assertTrue("no trial has a finite value of loss" in noscript)

    def test_one_trial_with_constants_only(self):
        self.open_report(self.SINGLE)
        notes = self.notes()
        self.assertIn("varies no hyperparameter", notes["parallel"])
        self.assertIn("needs two hyperparameters", notes["contour"])
        self.assertIn("the search has no hyperparameters", notes["importance"])
        self.assertEqual(self.js("return dtrain.state.shown"), 1)
        self.assertEqual(notes["history"], "")

    def test_integers_keep_their_digits_and_no_value_becomes_one(self):
        self.open_report(self.LARGE)
        trials = json.loads(run("trials", str(self.LARGE), "--json"))["trials"]
        texts = self.js("""
            const {columns} = dtrain.table;
            const text = (name, i) => columns.find((one) => one.name === name).text(i);
            return [...Array(dtrain.data.trials.count).keys()].map((i) =>
              [dtrain.data.idOf(i), text('hp.big', i), text('best', i)]);""")
        self.assertEqual(texts, [[t["id"], str(t["hparams"]["big"]), "0.9999995"] for t in trials])
        for condition, wanted in ((f"== {2**53 + 1}", lambda big: big == 2**53 + 1),
                                  (f"> {2**53}", lambda big: big > 2**53),
                                  (f"== {2**53}", lambda big: big == 2**53)):
            self.js(f"dtrain.state.set({{filter: 'hp.big {condition}'}})")
            self.assertEqual(self.js("return [dtrain.state.error, dtrain.state.shown]"),
                             ["", sum(wanted(t["hparams"]["big"]) for t in trials)], condition)
        self.js("dtrain.state.set({filter: ''})")

    def test_an_experiment_without_trials(self):
        self.open_report(self.EMPTY)
        notes = self.notes()
        for chart in ("history", "curves", "distribution", "pareto", "rungs", "timeline"):
            self.assertNotEqual(notes[chart], "", chart)
        self.assertIn("none", self.browser.find_element(By.ID, "summary").text)
        self.assertIn("| trials | none |", run("report", str(self.EMPTY), "--md"))

    def test_infinite_values_count_in_the_distribution(self):
        self.open_report(self.INFINITE, fragment="#metric=validation%2Fother")
        trials = json.loads(run("trials", str(self.INFINITE), "--json"))["trials"]
        values = [t["hparams"]["other"] for t in trials]
        numbers = {"0": 0.0, "Infinity": math.inf, "-Infinity": -math.inf}
        wanted = sorted({numbers[value] for value in values})
        shown = self.js("return dtrain.charts.find((c) => c.card.id === 'distribution')"
                        ".curves[0].points.map(([value, share]) => [String(value), share])")
        self.assertEqual([numbers[value] for value, _ in shown], wanted)
        self.assertEqual([share for _, share in shown],
                         [sum(numbers[v] <= limit for v in values) / len(values) for limit in wanted])
        infinite = sum(value != "0" for value in values)
        self.assertIn(f"{infinite} values not finite", self.notes()["distribution"])
        self.assertIn(f"{infinite} values not finite", self.notes()["history"])

    def test_infinite_values_count_in_filters_as_in_those_of_trials(self):
        self.open_report(self.INFINITE)
        for expression in ("max(other) > 0.9", "min(other) < 0", "max(other) == Infinity"):
            trials = json.loads(run("trials", str(self.INFINITE), "--filter", expression,
                                    "--json"))["trials"]
            self.assertTrue(trials, expression)
            self.js("dtrain.state.set({filter: arguments[0]})", expression)
            self.assertEqual(self.js("return dtrain.state.shown"), len(trials), expression)

    def test_more_than_a_million_values_are_thinned_and_the_page_says_so(self):
        with sqlite3.connect(os.environ["DTRAIN_STORE"] + "/dtrain.db") as store:
            [[row, best, name]] = store.execute(
                "SELECT t.id, t.best_batches, n.id FROM trials t, metric_names n "
                "WHERE t.experiment = ? AND n.name = 'other'", (self.SINGLE,))
            store.execute(
                "WITH RECURSIVE n(i) AS (SELECT 4 UNION ALL SELECT i + 1 FROM n WHERE i < 1100000) "
                "INSERT INTO metrics (trial, kind, batches, name, epoch, value, special, time) "
                "SELECT ?, 1, i, ?, 0, iif(i = 777777, -5, i % 1000), 0, i * 1000 FROM n", (row, name))
            # The best validation is between the extremes.
            store.execute("UPDATE trials SET best_batches = 500500 WHERE id = ?", (row,))
        try:
            text = subprocess.run(
                [DTRAIN, "report", str(self.SINGLE), str(self.HOPELESS), "--html", "many.html"],
                capture_output=True, text=True, check=True).stderr
            self.assertRegex(text, r"11000\d\d metric values thinned to 5\d{5};")
            self.open("#metric=validation%2Fother", pathlib.Path("many.html").resolve().as_uri())
            summary = self.browser.find_element(By.ID, "summary").text
            self.assertRegex(summary, r"1099999 values, thinned to 5\d{5} for this page; the extremes")
            self.assertIn("thinned", self.notes()["curves"])
            self.assertIn("thinned", self.notes()["history"])
            # The small experiment is whole, the extremes and the best validation are kept.
            self.assertEqual(self.js("return dtrain.data.experiments.map((e) => e.metrics.thinned)"),
                             [True, False])
            self.assertEqual(self.js("return dtrain.data.series(0, 'validation/other').value"
                                     ".reduce((least, value) => (value < least ? value : least), 0)"), -5)
            self.assertEqual(self.js("return dtrain.data.valuesAtBest('validation/other')[0]"), 500)
        finally:
            with sqlite3.connect(os.environ["DTRAIN_STORE"] + "/dtrain.db") as store:
                store.execute("DELETE FROM metrics WHERE trial = ? AND batches > 3", (row,))
                store.execute("UPDATE trials SET best_batches = ? WHERE id = ?", (best, row))

    def test_no_more_values_are_thinned_than_are_too_many(self):
        with sqlite3.connect(os.environ["DTRAIN_STORE"] + "/dtrain.db") as store:
            rows = [row for row, in store.execute("SELECT id FROM trials WHERE experiment = ?", (self.LARGE,))]
            for row in rows:
                store.execute(
                    "WITH RECURSIVE n(i) AS (SELECT 4 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO "
                    "metrics (trial, kind, batches, name, epoch, value, special, time) SELECT ?, 0, i, "
                    "(SELECT id FROM metric_names WHERE name = 'loss'), 0, i % 1000, 0, i * 1000 FROM n",
                    (1_000_080 // len(rows), row))
        try:
            run("report", str(self.LARGE), "--html", "over.html")
            metrics = bundle_of(pathlib.Path("over.html").read_text("utf-8"))[0]["experiments"][0]["metrics"]
            self.assertGreater(metrics["rows"], 1_000_000)
            self.assertTrue(metrics["thinned"])
            self.assertGreater(metrics["kept"], 900_000)
            self.assertLessEqual(metrics["kept"], 1_000_000)
        finally:
            with sqlite3.connect(os.environ["DTRAIN_STORE"] + "/dtrain.db") as store:
                for row in rows:
                    store.execute("DELETE FROM metrics WHERE trial = ? AND kind = 0 AND batches > 3", (row,))

    def test_all_of_them_together(self):
        self.open_report(*range(1, 6))
        self.assertEqual(self.js("return dtrain.data.experiments.length"), 5)

# Reports a loss that depends on lr, and diverges at large ones; an accuracy, too.
OVERLAY_PROGRAM = """#!/bin/sh
set -eu
awk -v from="$DTRAIN_DONE" -v until="$DTRAIN_UNTIL" -v rate="$DTRAIN_HPARAM_lr" 'BEGIN {
    if (rate == "auto") rate = 0.02
    for (batch = from + 1; batch <= until; ++batch) {
      loss = 1 / batch + (log(rate) + 5) ^ 2 / 100 + (rate > 0.06 ? 1e9 : 0)
      printf "{\\"type\\":\\"training\\",\\"batches\\":%d,\\"metrics\\":{\\"loss\\":%.17g}}\\n", batch, loss * 1.1
      if (batch % 2 == 0)
        printf "{\\"type\\":\\"validation\\",\\"batches\\":%d,\\"metrics\\":{\\"loss\\":%.17g,\\"accuracy\\":%.17g}}\\n", batch, loss, 1 / (1 + loss)
    }
  }' >&3
"""


class OverlayTest(BrowserTest):
    """Several experiments on one page."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        write_program("train.sh", OVERLAY_PROGRAM)
        pareto = {"type": "log", "base": 10, "minval": -5, "maxval": -1}
        spaces = [
            ({"lr": pareto, "other": 1}, "random", "loss", 20),
            ({"lr": {"type": "categorical", "vals": [0.001, 0.003, "auto"]}, "other": 2}, "grid", "loss", 0),
            ({"lr": 0.01, "other": 2}, "single", "loss", 0),
            ({"lr": pareto, "other": 1}, "async_halving", "accuracy", 12)]
        for number, (hyperparameters, searcher, metric, trials) in enumerate(spaces, 1):
            config = search(f"e{number}", "train.sh", hyperparameters, trials)
            config["searcher"] = {
                "name": searcher, "metric": metric, "smaller_is_better": metric == "loss",
                "max_length": {"batches": 8}, **({"max_trials": trials} if trials else {}),
                **({"num_rungs": 2} if searcher == "async_halving" else {})}
            config["labels"] = [f"l{number}"]
            pathlib.Path("one.json").write_text(json.dumps(config), encoding="utf-8")
            run("create", "one.json")
        for name in ("1 2 3", "1 4", "4", "1"):
            run("report", *name.split(), "--html", name.replace(" ", "") + ".html")

    def open_report(self, name, fragment=""):
        self.open(fragment, pathlib.Path(name + ".html").resolve().as_uri())

    def listed(self, experiments, filter_):
        return json.loads(run("trials", *experiments, "--filter", filter_, "--json"))["trials"]

    def test_filters_and_places_go_by_the_value(self):
        """A category in one experiment, a range in another, constant in the third."""
        self.open_report("123")
        for expression in ("hp.lr > 0.01", "hp.lr < 0.0001", "hp.lr == 0.01", "hp.lr == 0.001", "lr >= 0.003",
                           "hp.lr == auto", "hp.lr in (0.001, auto)", "hp.lr is null", "hp.other == 2",
                           "other == 1 and lr < 0.1", "metric.loss < 1"):
            self.js("dtrain.state.set({filter: arguments[0]})", expression)
            self.assertEqual(self.js("return [dtrain.state.error, dtrain.state.shown]"),
                             ["", len(self.listed("123", expression))], expression)
        self.js("dtrain.state.set({filter: ''})")
        texts = self.js("const axis = dtrain.data.axes.find((one) => one.name === 'lr');"
                        "return [...axis.values.keys()].map((i) => "
                        "[dtrain.data.idOf(i), axis.values[i], dtrain.data.hparamText(axis, i)])")
        trials = {one["id"]: one["hparams"]["lr"] for one in self.listed("123", "number > 0")}
        self.assertEqual(len(texts), len(trials))
        for name, place, text in texts:
            if trials[name] == "auto":
                self.assertEqual((place, text), (None, "auto"))
            else:
                self.assertEqual(place, trials[name], name)
        self.assertTrue(self.js("return dtrain.data.axes.find((one) => one.name === 'lr').log"))
        self.wait("document.querySelector('#parallel .plot').textContent.includes('other')")
        self.assertIn("1 trial without a place", self.js(
            "return dtrain.slices.find((one) => one.card.id === 'slice-lr').note.textContent"))

    def test_knows_the_names_of_the_command_line_and_no_others(self):
        self.open_report("4")
        names = self.js("return [...dtrain.trialFields(dtrain.data).keys()]")
        for name in ("id", "number", "trial", "duration", "seconds", "experiment", "name", "label", "hp.lr",
                     "metric.loss", "batches", "checkpoint", "reason", "created", "runs", "pid"):
            self.assertIn(name, names)
        for name in names:
            expression = f"{name} is not null"
            self.js("dtrain.state.set({filter: arguments[0]})", expression)
            self.assertEqual(self.js("return [dtrain.state.error, dtrain.state.shown]"),
                             ["", len(self.listed("4", expression))], expression)
        for expression in ("duration < 10m", "created > -2d", "ended >= 2026-01-01", "trial < 5 or number == 9",
                           "label == l4 and experiment == 4", "hparams ~ 'lr=.* other=1'", "rung > 0 and state == STOPPED"):
            self.js("dtrain.state.set({filter: arguments[0]})", expression)
            self.assertEqual(self.js("return [dtrain.state.error, dtrain.state.shown]"),
                             ["", len(self.listed("4", expression))], expression)

    def test_outliers_are_arrows_and_do_not_flatten_the_others(self):
        self.open_report("1")
        chart = "dtrain.charts.find((one) => one.card.id === '%s')"
        diverged = sum(one["best"]["value"] > 1e8 for one in self.listed("1", "number > 0"))
        self.assertGreater(diverged, 0)
        trials = f"{diverged} trial{'s' if diverged > 1 else ''}"
        for name in ("history", "curves", "distribution", "parallel", "slice-lr", "pareto"):
            text = self.js("return document.querySelector(`#${arguments[0]} .note`).textContent", name)
            self.assertIn(f"{diverged} value" if name == "pareto" else trials, text)
            self.assertIn("all values", text, name)
        self.js("dtrain.state.set({log: 'all'})")
        self.wait(f"!{chart % 'history'}.note.textContent")

    def test_experiments_with_different_goals_are_sorted_within(self):
        self.open_report("14")
        rows = self.js("return dtrain.table.rows.map((i) => [dtrain.data.idOf(i), "
                       "dtrain.data.placesInExperiments()[i]])")
        firsts = {json.loads(run("best", str(one), "-n", "1", "--json"))["best"][0]["trial"] for one in (1, 4)}
        self.assertEqual({name for name, _ in rows[:2]}, firsts)
        places = [place for _, place in rows if place is not None]
        self.assertEqual(places, sorted(places))
        self.assertIn("1 for the smallest loss, 4 for the largest accuracy",
                      self.browser.find_element(By.CSS_SELECTOR, "#trials .about").text)

    def test_training_and_validation_are_in_one_picture(self):
        self.open_report("1")
        curves = "dtrain.charts.find((one) => one.card.id === 'curves')"
        self.assertEqual(self.js(f"return [...new Set({curves}.curves.map((one) => one.kind))].sort()"),
                         ["training", "validation"])
        rows = json.loads(run("metrics", "1.1", "--json"))["metrics"]
        for row in rows[:4]:
            tip = self.js(f"""
                const chart = {curves};
                const mark = chart.marks.find(([, , trial, one, i]) => dtrain.data.idOf(trial) === '1.1' &&
                  one.kind === arguments[0] && one.batches[i] === arguments[1]);
                return mark && chart.textOf(mark[2], mark);""", row["kind"], row["batches"])
            if row["name"] != "loss" or not tip:
                continue
            number = re.search(r"loss: ([\d.e−+]+) after (\d+)", tip)
            self.assertAlmostEqual(float(number[1].replace("−", "-")) / float(row["value"]), 1, 4)
            self.assertEqual(int(number[2]), row["batches"])

    def test_trials_are_compared_at_one_length(self):
        self.open_report("4")
        at = json.loads(run("trials", "4", "--columns", "id,at(accuracy,4)", "--json"))["trials"]
        self.js("dtrain.state.set({at: '4'})")
        found = self.js("return [...dtrain.state.valuesOf('validation/accuracy')]")
        wanted = self.js("return dtrain.data.trials.count")
        self.assertEqual(len(found), wanted)
        self.assertEqual(sum(value is not None for value in found),
                         len(self.listed("4", "at(accuracy,4) is not null")))
        self.assertTrue(at)

    def test_pictures_of_the_page_are_those_of_plot(self):
        """The terminal draws the same figures as the SVG (chart.h)."""
        self.open_report("4")
        states = {one["state"] for one in self.listed("4", "number > 0")}
        run("plot", "4", "--kind", "timeline", "--out", "t.svg")
        colors = set(re.findall(r'<path stroke="(#\w+)" stroke-width="\d', pathlib.Path("t.svg").read_text("utf-8")))
        shown = self.js("return [...document.querySelectorAll('#timeline .key')].map((key) => "
                        "[key.textContent.split(' ')[0], key.firstChild.style.background])")
        self.assertEqual({state for state, _ in shown}, states)
        rgb = {f"rgb({int(c[1:3], 16)}, {int(c[3:5], 16)}, {int(c[5:], 16)})" for c in colors}
        self.assertEqual({color for _, color in shown}, rgb)
        run("plot", "4", "--kind", "rungs", "--out", "r.svg")
        svg = pathlib.Path("r.svg").read_text("utf-8")
        rows = self.js("return dtrain.charts.find((one) => one.card.id === 'rungs').rows")
        for row in rows:
            self.assertEqual(row["reached"], row["went_on"] + row["completed"] + row["ended"] + row["open"])
            self.assertIn(f">{row['reached']}</text>", svg)
        self.assertEqual(rows[-1]["completed"], rows[-1]["reached"])
        run("plot", "4", "--kind", "history", "--out", "h.svg")
        dots = max((path.count("h.1") for path in re.findall(r' d="([^"]*)"',
                    pathlib.Path("h.svg").read_text("utf-8"))), default=0)
        places = self.js("const history = dtrain.charts[0]; const {places} = "
                         "history.historyOf(dtrain.data.experiments[0], 'validation/accuracy', 'batches');"
                         "return places.size")
        self.assertLessEqual(dots, places)
        self.assertIn(f"{places} trials at their best validation", pathlib.Path("h.svg").read_text("utf-8"))


if __name__ == "__main__":
    if DRIVER is None:
        print("page_test: skipped: needs chromium, chromium-driver and python3-selenium")
        sys.exit(77)
    DTRAIN, CASES, REFERENCE = (str(pathlib.Path(one).resolve()) for one in sys.argv[1:4])
    unittest.main(argv=sys.argv[:1])
