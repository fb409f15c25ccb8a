#!/usr/bin/python3
"""The page of `dtrain serve` in a headless Chromium.

    live_test.py DTRAIN

Follows a run, looks at a trial and controls an experiment as a reader does.
Needs Debian's chromium, chromium-driver and python3-selenium, which only
Debian's own python3 sees; exits with 77 without them.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

DRIVER = shutil.which("chromedriver")
try:
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
except ImportError:
    DRIVER = None

DTRAIN = ""
CHECK = pathlib.Path(__file__).resolve().parents[1] / "crash" / "check"
HOSTILE = "</script><img src=x onerror=document.title='hacked'>"
# Trains until it is told to stop, a batch every 20 ms.
PROGRAM = """#!/usr/bin/env python3
import json, os, select, time
reports, orders = open(3, "w", buffering=1), open(4, "rb", buffering=0)
say = lambda **report: print(json.dumps(report), file=reports)
state = os.environ["DTRAIN_DIRECTORY"] + "/state"
batch, until = int(os.environ["DTRAIN_DONE"]), int(os.environ["DTRAIN_UNTIL"])
while batch < until and not select.select([orders], [], [], 0)[0]:
    batch += 1
    say(type="training", batches=batch, metrics={"loss": batch + 0.5})
    if until > 100: time.sleep(0.02)
    if batch % 10 == 0 or batch == until:
        say(type="validation", batches=batch, metrics={"loss": 1 / batch})
open(state, "w").write("state")
say(type="checkpoint", batches=batch, path=state)
"""


def config(name, batches, trials=1):
    return json.dumps({
        "name": name, "entrypoint": "./train.py",
        "hyperparameters": {"x": {"type": "double", "minval": 0, "maxval": 1}},
        "min_validation_period": {"batches": 10},
        "searcher": {"name": "random", "metric": "loss", "max_trials": trials,
                     "max_length": {"batches": batches}},
        "resources": {"slots": "cpu"}})


def run(*arguments):
    done = subprocess.run([DTRAIN, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"dtrain {' '.join(arguments)}: {done.returncode}\n{done.stderr}")
    return done.stdout


class LiveTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="dtrain-live-")
        os.chdir(cls.directory.name)
        os.environ["DTRAIN_STORE"] = cls.directory.name + "/store"
        os.environ["DTRAIN_RUNTIME_DIR"] = cls.directory.name + "/run"
        os.mkdir("run", 0o700)
        program = pathlib.Path("train.py")
        program.write_text(PROGRAM, encoding="utf-8")
        program.chmod(0o755)
        pathlib.Path("short.json").write_text(config(HOSTILE, 20, 12), encoding="utf-8")
        pathlib.Path("long.json").write_text(config("long", 5000), encoding="utf-8")
        run("create", "short.json")
        cls.server = subprocess.Popen([DTRAIN, "serve", "--port", "0", "--control"],
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        cls.address = cls.server.stdout.readline().strip()
        options = Options()
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                         "--window-size=1200,900"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        cls.browser = webdriver.Chrome(service=Service(DRIVER), options=options)

    @classmethod
    def tearDownClass(cls):
        cls.browser.quit()
        cls.server.terminate()
        cls.server.wait()
        subprocess.run([CHECK, "store", "--dtrain", DTRAIN], check=True)
        cls.directory.cleanup()

    def tearDown(self):
        errors = [line["message"] for line in self.browser.get_log("browser")
                  if line["level"] == "SEVERE"
                  # A request of a page for an experiment that is just deleted.
                  and not ("/api/experiment/" in line["message"] and "404" in line["message"])]
        self.assertEqual(errors, [])

    def js(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def wait(self, condition):
        end = time.monotonic() + 300
        # Plots out of sight are drawn when they come into sight.
        draw = "window.dtrain?.drawAll?.(); "
        while not self.js(f"{draw} return Boolean({condition})"):
            self.assertLess(time.monotonic(), end, condition)
            time.sleep(0.02)

    def open(self, experiment=1):
        self.browser.get("about:blank")
        base, token = self.address.split("#")
        self.browser.get(f"{base}?exp={experiment}#{token}")
        self.wait("window.dtrain && dtrain.charts.every((c) => c.drawn) && "
                  "[...dtrain.live.chosen.values()].every((one) => !one.loading)")

    def test_1_shows_an_experiment_and_hides_the_token(self):
        self.open()
        self.assertNotIn("token", self.browser.current_url)
        self.assertEqual(self.js("return document.images.length"), 0)
        self.assertIn("<img", self.browser.find_element(By.TAG_NAME, "h1").text)
        trials = json.loads(run("trials", "1", "--json"))["trials"]
        shown = self.js("const {data} = dtrain; return Array.from({length: data.trials.count}, "
                        "(_, i) => [data.idOf(i), data.stateOf(i), data.trials.best[i]])")
        self.assertEqual(shown, [[t["id"], t["state"], t["best"]["value"]] for t in trials])
        rows = json.loads(run("metrics", "1", "--json"))["metrics"]
        self.assertEqual(self.js("return dtrain.data.experiments[0].rows.value.length"), len(rows))
        self.js("document.querySelector('.rows .row').click()")
        self.wait("document.querySelector('dialog.trial').open")
        self.assertIn("Trial 1.", self.browser.find_element(By.CSS_SELECTOR, "dialog.trial").text)
        self.browser.find_element(By.CSS_SELECTOR, "dialog .close").click()

    def test_2_follows_a_run_and_controls_it(self):
        self.open()
        self.js("dtrain.state.set({filter: 'hp.x >= 0'})")
        number = int(run("create", "long.json", "-d").split()[0])
        self.wait(f"document.querySelector('tr[data-id=\"{number}\"]')")
        self.js(f"document.querySelector('tr[data-id=\"{number}\"] button').click()")
        last = "(dtrain.data.experiments[0].rows.batches.at(-1) ?? 0)"
        self.wait(f"dtrain.data.experiments[0].id === {number} && {last} > 5")
        before = self.js(f"return {last}")
        self.wait(f"{last} > {before}")
        recorded = json.loads(run("metrics", str(number), "--json"))["metrics"]
        self.wait(f"dtrain.data.experiments[0].rows.value.length >= {len(recorded)}")
        self.assertEqual(self.js("return dtrain.state.get('filter')"), "hp.x >= 0")
        state = f"document.querySelector('tr[data-id=\"{number}\"]').textContent"
        self.browser.find_element(By.CSS_SELECTOR, '[data-action="pause"]').click()
        self.wait(f"{state}.includes('PAUSED')")
        self.js("""
            const {server} = dtrain.live;
            const own = server.bundle;
            window.asked = 0;  // for all metrics of a trial that a new run may have replaced
            server.bundle = (path) => path.endsWith(':-1:-1') && ++window.asked === 1 ?
                Promise.reject(new Error('a failure of the test')) : own.call(server, path);""")
        self.browser.find_element(By.CSS_SELECTOR, '[data-action="resume"]').click()
        self.wait(f"{state}.includes('RUNNING')")
        self.wait("window.asked >= 2")  # again after the failure
        label = self.browser.find_element(By.CSS_SELECTOR, '[aria-label="add a label"]')
        label.send_keys("<b>new</b>", Keys.ENTER)
        self.wait(f"{state}.includes('<b>new</b>')")
        self.js("window.confirm = () => true")
        self.browser.find_element(By.CSS_SELECTOR, '[data-action="cancel"]').click()
        self.wait(f"{state}.includes('CANCELED')")
        [trial] = json.loads(run("trials", str(number), "--json"))["trials"]
        column = self.js("return [...document.querySelector('.head').children]"
                         ".findIndex((one) => one.title === 'batches')")
        self.wait(f"document.querySelector('.rows .row').children[{column}].textContent === "
                  f"'{trial['batches']}'")
        run("delete", str(number), "-y")
        self.wait("document.getElementById('message').textContent.includes('deleted') || "
                  "dtrain.data.experiments[0].id === 1")

    def test_3_overlays_experiments(self):
        run("create", "short.json")
        self.open()
        self.js("window.replaced = dtrain.state; document.querySelector('tbody tr input').click()")
        self.wait("dtrain.data.experiments.length === 2 && dtrain.data.trials.count === 24")
        self.assertIn("exp=1,", self.browser.current_url)
        self.wait("dtrain.state !== replaced && "
                  "[...dtrain.live.chosen.values()].every((one) => !one.busy && !one.loading)")
        self.js("window.versions = [replaced.version, dtrain.state.version]")
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": "dark"}]})
        self.wait("dtrain.state.version > versions[1]")
        self.assertEqual(self.js("return replaced.version - versions[0]"), 0)

    def test_4_a_page_without_the_token_says_so(self):
        self.browser.get("about:blank")
        self.browser.get(self.address.split("#")[0] + "#token=" + "0" * 32)
        self.wait("document.getElementById('message').textContent.includes('no valid token')")
        self.browser.get_log("browser")  # the refusal is in the console, too

    def start_run(self):
        """Starts a run and opens it; returns its number once the page shows its reports."""
        number = int(run("create", "long.json", "-d").split()[0])
        self.open(number)
        self.wait("dtrain.data.experiments[0].rows.value.length > 5")
        self.js("const {live} = dtrain; const {draw} = live; window.draws = 0; "
                "live.draw = () => { ++window.draws; draw.call(live); }")
        return number

    def press(self, kind, x, y):
        self.browser.execute_cdp_cmd("Input.dispatchMouseEvent", {
            "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1})

    def test_5_holds_still_while_an_experiment_runs(self):
        number = self.start_run()
        try:
            # A press that a redraw would fall into: it waits for the release.
            for selector, clicked in (
                    (f"tr[data-id='{number}'] button", "history.length > window.before"),
                    (".rows .row .cell:nth-child(2)", "document.querySelector('dialog.trial').open"),
                    ("#curves .key", "document.querySelector('dialog.trial').open")):
                x, y = self.js("""
                    window.before = history.length;
                    const one = document.querySelector(arguments[0]);
                    one.scrollIntoView({block: 'center'});
                    const box = one.getBoundingClientRect();
                    return [box.x + 9, box.y + box.height / 2];""", selector)
                self.press("mousePressed", x, y)
                self.wait("dtrain.live.due.has('show') && dtrain.live.due.has('list')")
                self.js("dtrain.state.refresh()")
                self.press("mouseReleased", x, y)
                self.wait(clicked)
                self.wait("dtrain.live.due.size === 0")
                self.js("document.querySelector('dialog.trial').close()")
            # Keyboard focus, a selected text and a half-written note.
            for before, after in (
                    (f"document.querySelector(\"tr[data-id='{number}'] input\").focus()",
                     f"document.activeElement === document.querySelector(\"tr[data-id='{number}'] input\")"),
                    ("document.querySelector('.head [title=state]').focus()",
                     "document.activeElement.title === 'state'"),
                    ("getSelection().selectAllChildren(document.querySelector('#summary h3'))",
                     "getSelection().toString().includes('long')"),
                    ("const note = document.querySelector('[aria-label=note]'); note.focus();"
                     "document.execCommand('insertText', false, 'half a no')",
                     "document.activeElement.value === 'half a no'")):
                self.js(before + "; window.draws = 0")
                run("label", str(number), "--add", f"l{len(after)}")
                self.wait(f"dtrain.live.list.get({number}).labels.includes('l{len(after)}') && window.draws > 9")
                self.assertTrue(self.js("return " + after), after)
            self.browser.switch_to.active_element.send_keys("te", Keys.ENTER)
            self.wait(f"dtrain.live.chosen.get({number}).record.note === 'half a note'")
            # A star and a note of a trial, seen without another load.
            self.js(f"dtrain.state.set({{trial: '{number}.1'}})")
            remark = "document.querySelector('dialog.trial .remark')"
            self.js(f"{remark}.querySelector('button').click()")
            self.wait(f"{remark}.textContent.includes('★')")
            self.wait(f"document.querySelector(\"[data-trial='{number}.1']\").textContent.includes('{number}.1 ★')")
            self.js(f"{remark}.querySelector('input').focus()")
            self.browser.switch_to.active_element.send_keys("odd", Keys.ENTER)
            self.wait("dtrain.data.remarkOf(0).note === 'odd'")
            self.assertEqual(json.loads(run("describe", f"{number}.1", "--json"))["note"], "odd")
            self.js(f"{remark}.querySelector('button').click()")
            self.wait(f"{remark}.textContent.includes('☆')")
            self.js("dtrain.state.set({trial: ''})")
        finally:
            run("kill", str(number))

    def used(self):
        self.browser.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        self.browser.execute_cdp_cmd("Performance.enable", {})
        metrics = self.browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return {one["name"]: one["value"] for one in metrics
                if one["name"] in ("Nodes", "JSEventListeners", "JSHeapUsedSize")}

    def test_6_memory_and_nodes_stay_level(self):
        self.open()
        numbers = [one["id"] for one in json.loads(run("list", "--json"))["experiments"]]
        early = {}
        for change in range(1, 101):
            number = numbers[change % 2]
            self.js(f"dtrain.live.choose([{number}])")
            self.wait(f"dtrain.data.experiments[0].id === {number} && "
                      f"!dtrain.live.chosen.get({number}).loading")
            if change == 20:
                early = self.used()
        # A collection leaves nodes whose drawing is still under way; a leak stays.
        for _ in range(60):
            late = self.used()
            if all(late[name] < 1.3 * early[name] for name in early):
                break
            time.sleep(0.5)
        else:
            self.fail(f"{early} after 20 changes, {late} after 100")

    def test_7_every_experiment_is_said_and_reachable(self):
        number = max(one["id"] for one in json.loads(run("list", "--json"))["experiments"])
        row = f"document.querySelector(\"tr[data-id='{number}']\")"
        run("archive", str(number))
        self.open()
        self.wait(f"!{row} && document.getElementById('count').textContent.includes('1 archived')")
        self.browser.find_element(By.CSS_SELECTOR, "#experiments label input").click()
        self.wait(f"{row}?.textContent.includes('archived')")
        self.open(number)
        self.wait(f"dtrain.data.experiments[0].id === {number} && {row}")
        self.js("dtrain.live.listed = 1; dtrain.live.drawList()")
        self.wait("document.querySelectorAll('#experiments tbody tr').length === 1")
        self.browser.find_element(By.ID, "more").click()
        self.wait("document.querySelectorAll('#experiments tbody tr').length > 1")
        run("delete", str(number), "-y")
        message = "document.getElementById('message').textContent"
        self.wait(f"{message}.includes('Experiment {number} was deleted.')")
        self.assertEqual(self.js("return [...dtrain.live.chosen.keys()]"), [])
        self.assertNotIn("exp=", self.browser.current_url)
        self.js("document.querySelector('#experiments tbody button').click()")
        self.wait(f"!{message} && dtrain.live.chosen.size === 1")
        base, token = self.address.split("#")
        self.browser.get("about:blank")
        self.browser.get(f"{base}?exp=999#{token}")
        self.wait(f"{message}.includes('There is no experiment 999.')")

    def test_8_another_address_in_the_same_tab_works(self):
        cls = type(self)
        self.open()
        self.js("dtrain.state.set({smooth: '0.9'})")
        port = self.address.split(":")[2].split("/")[0]
        cls.server.terminate()
        cls.server.wait()
        cls.server = subprocess.Popen([DTRAIN, "serve", "--port", port, "--control"],
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        cls.address = cls.server.stdout.readline().strip()
        self.wait("document.getElementById('message').textContent.includes('no valid token')")
        self.js("location.hash = arguments[0]", self.address.split("#")[1])
        self.wait("document.getElementById('connection').textContent === 'live'")
        self.assertNotIn("token", self.browser.current_url)
        self.assertIn("smooth=0.9", self.browser.current_url)
        self.assertEqual(self.js("return document.getElementById('message').textContent"), "")
        self.browser.get_log("browser")  # the refusals are in the console, too


if __name__ == "__main__":
    if DRIVER is None:
        print("live_test: skipped: needs chromium, chromium-driver and python3-selenium")
        sys.exit(77)
    DTRAIN = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
